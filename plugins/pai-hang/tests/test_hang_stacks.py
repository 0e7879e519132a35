"""Stacks of real processes, the command `stacks`, and the watch beside a real task."""

import ctypes
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_hang.places import Look, where
from pai_hang.processes import (
    TIMED_WAIT,
    Process,
    addresses,
    has_listener,
    may_wait,
    silent_peers,
    tree,
)
from pai_hang.stacks import NOT_PERMITTED, Stacks, refusal, take
from pai_hang.stacks_command import look_at
from pai_hang.within import ARGV, parsed
from pai_runtime.plugin import RunningTask, UserError
from pai_task.folder import Folder
from pai_task.launch import LaunchOptions
from pai_task.plan import Plan, PlannedService, Service
from pai_task.session_socket import ask, connect, listen, read_answer
from pai_task.state import read_state
from tests.lost_peer import drop_packets
from tests.support import PROGRAM, cli, exit_record, job, runtime_log, until, write_job
from tests.task_harness import TaskRun, plan, run_task

pytestmark = [
    pytest.mark.process,
    pytest.mark.needs("tracing siblings"),
    # What pytest-xdist runs tests in has threads; a task's watch, and the command, have none.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

READS = """
import os, sys
def read_shard():
    os.path.exists("shard") or os.mkfifo("shard")
    return os.read(os.open("shard", os.O_RDWR), 1)
read_shard()
"""
"""A program that reads from a FIFO to which nobody writes."""
RANKS = """
import os, threading
def read_shard():
    os.mkfifo("shard")
    return os.read(os.open("shard", os.O_RDWR), 1)
def barrier():
    threading.Event().wait()
if os.environ["PAI_TASK_INDEX"] == "2":
    read_shard()
barrier()
"""
"""A program of which one task never comes to where the others wait for it."""


SPINS = """
import ctypes, os
library = ctypes.CDLL(os.environ["LIBRARY"])
library.cudaStreamSynchronize.argtypes = [ctypes.c_ulong]
def step():
    library.cudaStreamSynchronize(0)
def solve():
    library.solve()
def evaluate():
    for batch in range(10**9):
        library.cudaStreamSynchronize(10**7)

"""
"""Functions that wait for the GPU as CUDA does, that compute in C, and that wait again and again."""
LIBRARY = """
int solve(void) { volatile int on = 1; while (on); return 0; }
int cudaStreamSynchronize(unsigned long turns) {
    volatile unsigned long left = turns;
    while (--left);
    return 0;
}
"""


TRACED = "trace=clone,clone3,fork,vfork,ptrace,process_vm_readv"
"""What `strace` is to show: who starts whom, and who reads whose memory."""
PR_SET_DUMPABLE = 4


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", READS], cwd=tmp_path) as program:
        try:
            until(lambda: _seen(program.pid).file)
            yield program.pid
        finally:
            program.kill()


def _seen(pid: int) -> Process:
    return next(each for each in tree(os.getpid()) if each.pid == pid)


def _look(pid: int) -> Look:
    seen = _seen(pid)
    return Look("worker/0", seen, take([seen])[pid])


def running(program: str, **fields: Any) -> dict[str, Any]:
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(program)}"
    return job(worker={"commands": [command], **fields})


def test_a_stack_says_in_which_function_and_at_which_file_a_process_is(reads: int, tmp_path: Path) -> None:
    found = _look(reads)
    assert [frame.function for frame in found.stacks.threads[0].frames] == ["<module>", "read_shard"]
    assert where(found) == f"in read of {tmp_path / 'shard'} in read_shard (<string>:5)"


def test_a_stopped_process_is_read_and_stays_stopped(reads: int) -> None:
    os.kill(reads, signal.SIGSTOP)
    until(lambda: _seen(reads).is_stopped)
    found = _look(reads)
    assert where(found).startswith("stopped by a signal in ")
    assert found.main is not None
    assert _seen(reads).is_stopped


def test_a_process_that_is_read_goes_on(reads: int, tmp_path: Path) -> None:
    assert _look(reads).main is not None
    (tmp_path / "shard").write_text("x")
    until(lambda: os.waitid(os.P_PID, reads, os.WEXITED | os.WNOWAIT))


def test_who_is_no_python_has_no_stack_but_a_system_call() -> None:
    with subprocess.Popen(["sleep", "1000"]) as program:
        try:
            until(lambda: _seen(program.pid).call.endswith("nanosleep"))
            found = _look(program.pid)
            until(lambda: _seen(program.pid).call.endswith("nanosleep"))  # by another call since it was read
        finally:
            program.kill()
    assert found.stacks.why_not == "no Python"
    assert where(found).endswith("nanosleep (sleep)")


def test_of_who_is_not_dumpable_it_is_said_that_only_root_may_read_it() -> None:
    prctl = ctypes.CDLL(None).prctl
    hidden = os.fork()
    if hidden == 0:
        if os.geteuid() == 0:
            os.setresuid(12345, 12345, 12345)
        prctl(PR_SET_DUMPABLE, 0)
        signal.pause()
        os._exit(1)
    try:
        until(lambda: "non-dumpable" in refusal(hidden))
    finally:
        os.kill(hidden, signal.SIGKILL)
        os.waitpid(hidden, 0)


def test_a_program_with_a_thread_that_sleeps_may_wait(reads: int) -> None:
    sleeps = "import threading, time; threading.Thread(target=time.sleep, args=[1000]).start()"
    with subprocess.Popen([sys.executable, "-c", sleeps]) as program:
        try:
            until(lambda: may_wait(program.pid))
        finally:
            program.kill()
    assert not may_wait(reads)


@pytest.mark.needs("packet filters")
@pytest.mark.parametrize("server", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.needs("IPv6"))])
def test_a_peer_that_takes_no_packets_any_more_is_named(server: str) -> None:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with (
        socket.create_server((server, 0), family=family) as listening,
        socket.create_connection(listening.getsockname()[:2]) as own,
        listening.accept()[0] as lost,
    ):
        own.send(b"heard")
        assert silent_peers(os.getpid()) == ()
        drop_packets(lost)
        own.send(b"lost")
        peer = f"{server}:{listening.getsockname()[1]}"
        until(lambda: silent_peers(os.getpid()) == (peer,))
        assert peer in addresses(os.getpid())


def test_a_wait_with_a_time_limit_is_told_from_one_without() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import threading; threading.Event().wait(1000)"]
    ) as program:
        try:
            until(lambda: _seen(program.pid).call == TIMED_WAIT)
        finally:
            program.kill()


def test_a_process_that_has_gone_has_no_stack() -> None:
    gone = Process(2**22 + 1, 1, "gone", "S", 0, 0, "", "", "")
    assert take([gone])[gone.pid].why_not
    assert not has_listener(gone.pid)


def test_the_command_names_the_task_that_is_not_where_the_others_are(tmp_path: Path) -> None:
    write_job(tmp_path, running(RANKS, instances=4))
    run = tmp_path / "run"
    argv = [str(PROGRAM), "run", str(tmp_path / "job.yaml"), "--plain", "--out", str(run)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running_job:
        try:
            until(run.is_dir)
            found = until(lambda: _lines_if(run, "3 tasks (worker/0, worker/1, worker/3)", "worker/2 is not"))
            assert found[0].endswith(" are in wait (<string>:7)")
            whole = cli("stacks", run, "worker/2").stdout
            assert "read_shard (<string>:5)" in whole
            assert "worker/0" not in whole
        finally:
            running_job.send_signal(signal.SIGINT)
    ended = cli("stacks", run)
    assert (ended.returncode, ended.stdout) == (2, "")


def _lines_if(run: Path, *texts: str) -> list[str]:
    found = cli("stacks", run).stdout
    return found.splitlines() if all(text in found for text in texts) else []


def test_a_task_that_hangs_is_ended_and_its_record_says_where_it_was(tmp_path: Path) -> None:
    write_job(tmp_path, {**running(READS), "extras": {"hang": {"after": "4s", "then": "fail"}}})
    ended = cli("run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert ended.returncode == 219
    task = tmp_path / "run" / "worker" / "0"
    record = exit_record(task)
    assert (record["phrase"], record["exitCode"], record["behavior"]) == ("Hang", 219, "TRANSIENT")
    assert "read_shard" in record["matchedPlatformLogString"]
    assert "read_shard" in record["notes"][0]
    assert any(line.startswith("[ERROR] the task hangs: ") for line in runtime_log(task))


def _state(task: Path) -> Mapping[str, Any]:
    with Folder.at(task) as folder:
        return read_state(folder)


def test_where_tasks_hang_is_told_while_they_run_and_in_the_summary_each_place_once(tmp_path: Path) -> None:
    write_job(tmp_path, {**running(RANKS, instances=3), "extras": {"hang": {"after": "4s"}}})
    run, seen = tmp_path / "run", tmp_path / "seen"
    argv = [str(PROGRAM), "run", str(tmp_path / "job.yaml"), "--plain", "--out", str(run)]
    with seen.open("wb") as file, subprocess.Popen(argv, stdout=file, stderr=file) as running_job:
        try:
            until(lambda: all((run / "worker" / index / "state.json").is_file() for index in "012"))
            until(lambda: all(_state(run / "worker" / index)["notes"] for index in "012"))
            until(lambda: len(_lines_about_hangs(seen)) == 3)
        finally:
            running_job.send_signal(signal.SIGINT)
    told = _lines_about_hangs(seen)
    assert len(told) == 5
    assert sum(line.endswith("in read_shard (<string>:5)") for line in told) == 2
    odd = [line.partition("note of worker/0, worker/1, but not of worker/2 (")[2] for line in told]
    assert sum("in read of " in line for line in odd) == 2


YAMA = "tests.yama_supervisor"
TRACE = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", TRACED, "-o"]
NO_RIGHTS = ["setpriv", "--no-new-privs"]


def readers_of_stacks(calls: Path) -> set[str]:
    """Which processes have read in others, by the output of strace; they are all ancestors of these."""
    parents: dict[str, str] = {}
    of_thread: dict[str, str] = {}
    readers: set[str] = set()
    for line in calls.read_text().splitlines():
        if made := re.match(r"(\d+) +(?:<\.\.\. )?(?:v?fork|clone3?)\b.* = (\d+)$", line):
            (of_thread if "CLONE_THREAD" in line else parents)[made[2]] = of_thread.get(made[1], made[1])
        elif read := re.match(r"(\d+) +(?:process_vm_readv\(|ptrace\(PTRACE_\w+, )(\d+)", line):
            reader = of_thread.get(read[1], read[1])
            readers.add(reader)
            assert reader in _ancestors(read[2], parents), line
    return readers


STOPS = """
import os, signal
os.kill(os.getpid(), signal.SIGSTOP)
"""
"""What stands still, for strace is in the way of who would stop a process to read it."""


def watched(folder: Path, program: str, silent: int, *words: str) -> Plan:
    """A task whose watch is to be the parent of its command."""
    service = Service("hang", "exit 1", when_silent=silent, ancestor=("-I", "-m", "pai_hang.watch", *words))
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(program)}"
    return replace(plan(folder, command), services=(PlannedService(0, service),))


@pytest.mark.needs("strace")
def test_where_yama_rules_only_an_ancestor_of_a_process_reads_its_stack(tmp_path: Path) -> None:
    task = watched(tmp_path / "task", STOPS, 2, "4", "2", "fail")
    ended = run_task(task, module=YAMA, wrap=[*TRACE, str(tmp_path / "calls"), *NO_RIGHTS])
    assert len(readers_of_stacks(tmp_path / "calls")) == 1
    (note,) = ended.record["notes"]
    assert note.startswith("seems to hang: it is stopped by a signal in ")
    assert note.endswith("(<string>:3)")


@pytest.mark.needs("strace")
def test_where_yama_rules_the_watch_is_asked_where_a_task_is_though_it_has_not_begun(tmp_path: Path) -> None:
    task = watched(tmp_path / "task", STOPS, 600, "1200", "600", "report")
    (tmp_path / "task").mkdir()
    with Folder.at(tmp_path / "task") as folder:
        listening = listen(folder)
        assert listening is not None
        options = LaunchOptions(sessions_fd=listening)
        wrap = [*TRACE, str(tmp_path / "calls"), *NO_RIGHTS]
        running = TaskRun(task, options, module=YAMA, wrap=wrap, fds=(listening,))
        until(lambda: any(process.is_stopped for process in tree(running.process.pid)))
        connection, told = connect(folder), tmp_path / "told"
        with connection, told.open("wb") as file:
            streams = (0, file.fileno(), file.fileno())
            ask(connection, ARGV, streams, terminal=False, variables={})
            assert read_answer(connection.recv(4096)) == (0, None)
        os.kill(read_state(folder)["pid"], signal.SIGTERM)
        running.end()
    (seen,) = [where(look) for look in parsed("", json.loads(told.read_text())) if look.main]
    assert seen.startswith("stopped by a signal in ")
    assert seen.endswith("(<string>:3)")
    assert len(readers_of_stacks(tmp_path / "calls")) == 1


def _ancestors(pid: str, parents: Mapping[str, str]) -> Iterator[str]:
    while pid := parents.get(pid, ""):
        yield pid


def _lines_about_hangs(seen: Path) -> list[str]:
    return [line for line in seen.read_text().splitlines() if "seems to hang" in line]


@pytest.mark.needs("musl-tools")
def test_who_spins_for_a_gpu_hangs_and_of_the_one_that_computes_it_is_said_where_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "library.c").write_text(LIBRARY)
    library = tmp_path / "library.so"
    compiler = ["musl-gcc", "-shared", "-fPIC", "-nostdlib", "-o", str(library), str(tmp_path / "library.c")]
    subprocess.run(compiler, check=True)
    begin = f"import os; os.environ['LIBRARY'] = {str(library)!r}{SPINS}"
    worker = running(f"{begin}step() if os.environ['PAI_TASK_INDEX'] != '2' else solve()", instances=3)
    healthy = running(f"{begin}evaluate()")
    roles = {"worker": worker["taskRoles"]["worker"], "healthy": healthy["taskRoles"]["worker"]}
    write_job(tmp_path, {**worker, "taskRoles": roles, "extras": {"hang": {"after": "4s"}}})
    run, seen = tmp_path / "run", tmp_path / "seen"
    argv = [str(PROGRAM), "run", str(tmp_path / "job.yaml"), "--plain", "--out", str(run)]
    with seen.open("wb") as file, subprocess.Popen(argv, stdout=file, stderr=file) as running_job:
        try:
            until(lambda: "but not of" in seen.read_text())
            until(lambda: _state(run / "healthy" / "0")["at"])
        finally:
            running_job.send_signal(signal.SIGINT)
    odd = "note of worker/0, worker/1, but not of worker/2 (in solve (<string>:8)): seems to hang: it is in "
    assert seen.read_text().count(f"{odd}cudaStreamSynchronize in step (<string>:6)") == 2
    records = [exit_record(run / "worker" / index) for index in "012"]
    assert [record.get("notes", []) == [] for record in records] == [False, False, True]
    assert records[2]["at"] == "in solve (<string>:8)"
    assert "notes" not in exit_record(run / "healthy" / "0")
    assert any("solve (<string>:8)" in line for line in runtime_log(run / "worker" / "2"))


@pytest.mark.parametrize("hang", [{}, {"after": "1s", "then": "fail"}])
def test_a_task_that_sleeps_does_not_hang(tmp_path: Path, hang: dict[str, str]) -> None:
    write_job(tmp_path, {**job(worker={"commands": ["sleep 4"]}), "extras": {"hang": hang}})
    assert cli("run", tmp_path / "job.yaml", "--out", tmp_path / "run").returncode == 0
    assert "notes" not in exit_record(tmp_path / "run" / "worker" / "0")


def test_nothing_watches_where_hangs_are_ignored(tmp_path: Path) -> None:
    def services(**extras: Any) -> list[Any]:
        write_job(tmp_path, {**job(), "extras": extras})
        ended = cli("plan", tmp_path / "job.yaml", "--task", "worker/0", "--json")
        found: list[Any] = json.loads(ended.stdout)["services"]
        return found

    (watch,) = services()
    assert watch["whenSilent"] == 600
    assert services(hang={"then": "ignore"}) == []


def test_a_task_whose_stacks_may_not_be_read_from_here_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(7, 1, "python3", "S", 1.0, 100, "futex", "", "futex_wait")
    refused = Look("worker/0", process, Stacks(why_not=f"{NOT_PERMITTED}: it belongs to nobody"))
    monkeypatch.setattr("pai_hang.within.look_below", lambda _: [refused])
    frame = ["solve", "/job/train.py", 8]
    document = [
        [[7, 1, "python3", "S", 1.0, 100, "futex", "", ""], "", [[7, [frame], False, [], ""]], [], []]
    ]
    looks, untold = look_at([RunningTask("worker/0", 1, lambda _: document)])
    assert ([look.stacks.threads[0].frames[0].function for look in looks], untold) == (["solve"], [])

    def dies(_: object) -> None:
        raise UserError("it cannot be entered")

    looks, untold = look_at([RunningTask("worker/0", 1, dies)])
    assert (looks, untold) == ([refused], ["worker/0: it cannot be entered"])
