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
from pai_hang.stacks import refusal, take
from pai_runtime.task.folder import Folder
from pai_runtime.task.plan import PlannedService, Service
from pai_runtime.task.state import read_state
from tests.lost_peer import drop_packets
from tests.support import PROGRAM, cli, exit_record, job, runtime_log, until, write_job
from tests.task_harness import plan, run_task

pytestmark = [
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


def test_where_tasks_hang_is_told_while_they_run_and_in_the_summary_each_place_once(tmp_path: Path) -> None:
    write_job(tmp_path, {**running(RANKS, instances=3), "extras": {"hang": {"after": "4s"}}})
    run, seen = tmp_path / "run", tmp_path / "seen"
    argv = [str(PROGRAM), "run", str(tmp_path / "job.yaml"), "--plain", "--out", str(run)]
    with seen.open("wb") as file, subprocess.Popen(argv, stdout=file, stderr=file) as running_job:
        try:
            until(lambda: all((run / "worker" / index / "state.json").is_file() for index in "012"))
            until(lambda: all(read_state(Folder.at(run / "worker" / index))["notes"] for index in "012"))
            until(lambda: len(_lines_about_hangs(seen)) == 3)
        finally:
            running_job.send_signal(signal.SIGINT)
    told = _lines_about_hangs(seen)
    assert len(told) == 5
    assert sum(line.endswith("in read_shard (<string>:5)") for line in told) == 2
    odd = [line.partition("note of worker/0, worker/1, but not of worker/2 (")[2] for line in told]
    assert sum("in read of " in line for line in odd) == 2


@pytest.mark.needs("strace")
def test_where_yama_rules_only_an_ancestor_of_a_process_reads_its_stack(tmp_path: Path) -> None:
    run = ("-I", "-m", "pai_hang.watch", "4", "2", "fail")
    watch = PlannedService(0, Service("hang", "exit 1", when_silent=2, ancestor=run))
    stops = f"exec {shlex.quote(sys.executable)} -c 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)'"
    calls = tmp_path / "calls"
    trace = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-o",
        str(calls),
        "-e",
        TRACED,
        "setpriv",
        "--no-new-privs",
    ]
    task = replace(plan(tmp_path / "task", stops), services=(watch,))
    ended = run_task(task, module="tests.yama_supervisor", wrap=[*trace, "setpriv", "--no-new-privs"])
    parents: dict[str, str] = {}
    readers: set[str] = set()
    for line in calls.read_text().splitlines():
        if made := re.match(r"(\d+) +(?:<\.\.\. )?(?:v?fork|clone3?)\b.* = (\d+)$", line):
            parents[made[2]] = made[1]
        elif read := re.match(r"(\d+) +(?:process_vm_readv\(|ptrace\(PTRACE_\w+, )(\d+)", line):
            readers.add(read[1])
            assert read[1] in _ancestors(read[2], parents), line
    assert len(readers) == 1
    (note,) = ended.record["notes"]
    assert note.startswith("seems to hang: it is stopped by a signal in ")
    assert note.endswith("(<string>:1)")


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
            until(lambda: read_state(Folder.at(run / "healthy" / "0"))["at"])
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
