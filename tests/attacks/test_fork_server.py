"""The process that supervisors are forked from: it can be killed, stopped or refused, and holds nothing."""

import ctypes
import errno
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pai_runtime.engines.local import fork_server
from pai_runtime.engines.local import launcher as launcher_module
from pai_runtime.engines.local.launch import Launch
from pai_runtime.engines.local.launcher import Launcher
from pai_task.folder import Folder
from pai_task.launch import LaunchOptions
from tests.needs import is_met
from tests.support import PROGRAM, job, write_job
from tests.task_harness import plan

pytestmark = pytest.mark.process

SECRET = "a-value-that-nobody-may-find"
MODES = ["auto", "none"]


@contextmanager
def running(folder: Path, mode: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A run of two tasks, both of which wait, with the process ids of their supervisors."""
    path = write_job(folder, job(worker={"commands": ["echo up", "exec sleep 1000"], "instances": 2}))
    argv: list[str | Path] = [
        PROGRAM,
        "run",
        path,
        "--plain",
        "--out",
        folder / "run",
        "--isolation",
        mode,
        "--env",
        "MY_TOKEN",
    ]
    environment = {**os.environ, "MY_TOKEN": SECRET}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as engine:
        assert engine.stdout
        assert [engine.stdout.readline()[-3:] for _ in range(2)] == [b"up\n", b"up\n"]
        states = (folder / "run/worker").glob("*/state.json")
        try:
            yield engine, [json.loads(state.read_text())["pid"] for state in states]
        finally:
            engine.kill()


def fork_server_of(engine: int, supervisors: list[int]) -> int:
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    (found,) = {int(pid) for pid in children} - set(supervisors)
    return found


@pytest.mark.needs("clone3")
@pytest.mark.parametrize("mode", MODES)
def test_it_has_no_secret_and_no_file_of_the_run(tmp_path: Path, mode: str) -> None:
    with running(tmp_path, mode) as (engine, supervisors):
        process = Path(f"/proc/{fork_server_of(engine.pid, supervisors)}")
        if not is_met("ptrace"):  # nor can its own user look
            with pytest.raises(PermissionError):
                (process / "environ").read_bytes()
            with pytest.raises(PermissionError):
                list((process / "fd").iterdir())
            return
        assert SECRET.encode() not in (process / "environ").read_bytes()
        opened = [str(fd.readlink()) for fd in (process / "fd").iterdir() if int(fd.name) > 2]
    kinds = sorted(each.partition(" ")[0].partition(":")[0] for each in opened)
    assert kinds == ["/memfd", "anon_inode", "socket"]  # an empty script, the engine, the connection
    assert "/memfd:pai-runtime script (deleted)" in opened


@pytest.mark.needs("clone3")
@pytest.mark.parametrize("mode", MODES)
def test_when_it_and_the_engine_are_killed_no_process_is_left(tmp_path: Path, mode: str) -> None:
    with running(tmp_path, mode) as (engine, supervisors):
        opened = [os.pidfd_open(pid) for pid in supervisors]
        os.kill(fork_server_of(engine.pid, supervisors), signal.SIGKILL)
        engine.kill()
        assert engine.stdout
        assert engine.stdout.read() == b""  # which comes when nobody has it open any more
    for fd in opened:
        assert select.select([fd], [], [], 60)[0]
        os.close(fd)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    yield made
    made.close()


def launch(launcher: Launcher, folder: Path, command: str = "echo done > here") -> int:
    """Run a task by it; its exit code."""
    (folder / "work").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan(folder, command).to_json()))
    with Folder.at(folder) as own:
        pid = launcher.launch(Launch(str(folder), dict(os.environ), LaunchOptions().to_argument()), own, {})
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.needs("clone3")
def test_one_that_is_killed_between_two_tasks_is_replaced(tmp_path: Path, launcher: Launcher) -> None:
    assert launch(launcher, tmp_path / "first") == 0
    assert launcher.pid
    os.kill(launcher.pid, signal.SIGKILL)
    os.waitpid(launcher.pid, 0)
    assert launch(launcher, tmp_path / "second") == 0


def test_one_that_does_not_answer_fails_one_task_and_is_replaced(
    tmp_path: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher_module, "_ANSWERS_WITHIN", 0.05)
    launcher.start()
    assert launcher.pid
    stopped = launcher.pid
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        launch(launcher, tmp_path / "first")
    assert os.waitpid(stopped, 0)[1] == signal.SIGKILL
    monkeypatch.undo()
    assert launch(launcher, tmp_path / "second") == 0


@pytest.mark.needs("clone3")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_one_that_is_killed_while_it_forks_leaves_one_task_that_runs_and_is_known(
    tmp_path: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It used to say itself which process it had made, and could be killed just before it did."""
    modules = tmp_path / "modules"
    modules.mkdir()
    once = tmp_path / "killed-once"
    (modules / "killed_server.py").write_text(KILLED_WHILE_IT_FORKS.format(moment=moment, once=str(once)))
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.setattr(launcher_module, "_FORK_SERVER", "killed_server")
    assert launch(launcher, tmp_path / "task", "echo done >> here") == 0
    assert once.exists()
    assert (tmp_path / "task/work/here").read_text() == "done\n"


KILLED_WHILE_IT_FORKS = """
import os, pathlib, signal
from pai_runtime.engines.local import fork_server
from pai_runtime.engines.local.fork_server import clone, main

def die(moment):
    once = pathlib.Path({once!r})
    if moment == {moment!r} and not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)

def clone_and_die(flags):
    die("before")
    pid = clone(flags)
    if pid:
        die("after")
    return pid

fork_server.clone = clone_and_die
"""


def test_what_it_is_given_is_not_kept_where_no_process_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_flags: int) -> int:
        raise OSError(errno.EAGAIN, "no more processes", "namespaces")

    monkeypatch.setattr(fork_server, "clone", refuse)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = os.memfd_create("secrets")
    with ours, its:
        fork_server._serve(its, [], 0, [fd])
        assert json.loads(ours.recv(launcher_module.MOST_ANSWER))["error"][0] == errno.EAGAIN
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_all_tasks_begin_with_the_same(tmp_path: Path, launcher: Launcher) -> None:
    show = (
        'ulimit -a; umask; env; for p in self $PPID; do grep -E "^(Sig[BIC]|Cap|Name)" /proc/$p/status; done'
    )
    if is_met("ptrace"):  # nobody else can look at the supervisor's
        show += "; cd /proc/$PPID/fd && for f in *; do readlink $f; done"
    command = f'cd {shlex.quote(str(tmp_path))}; {{ {show}; }} > "$PAI_WORK_DIR/here"'
    for name in ("first", "second"):
        assert launch(launcher, tmp_path / name, command) == 0
    first, second = ((tmp_path / name / "work/here").read_text() for name in ("first", "second"))
    assert _without_numbers(first.replace("/first", "/second")) == _without_numbers(second)


def _without_numbers(text: str) -> list[str]:
    return sorted(re.sub(r"(pipe|socket|PPID=|proc/)\W*\d+", r"\1", line) for line in text.splitlines())


class Instruction(ctypes.Structure):
    """Of a filter of system calls."""

    _fields_ = (
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    )


class Program(ctypes.Structure):
    """A filter."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


NO_CLONE3 = (
    (0x20, 0, 0, 0),  # the number of the call
    (0x15, 0, 1, 435),  # clone3?
    (0x06, 0, 0, 0x00050000 | errno.ENOSYS),
    (0x06, 0, 0, 0x7FFF0000),  # allowed
)


def without_clone3() -> None:
    """As in a container of some years ago."""
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    program = Program(
        len(NO_CLONE3), (Instruction * len(NO_CLONE3))(*(Instruction(*each) for each in NO_CLONE3))
    )
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0


def test_where_the_kernel_has_no_way_to_fork_for_another_each_supervisor_has_its_own(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["echo $PAI_TASK_INDEX"], "instances": 3}))
    ended = subprocess.run(
        [PROGRAM, "run", path, "--out", tmp_path / "run"],
        preexec_fn=without_clone3,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.split()) == sorted(
        ["worker/0", "|", "0", "worker/1", "|", "1", "worker/2", "|", "2"]
    )
    assert "tasks are not isolated (a user namespace: Function not implemented)" in ended.stderr
