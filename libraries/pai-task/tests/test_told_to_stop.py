"""A task that is told to stop reaches the program that saves its work, whatever launched it."""

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from pai_task.launch import LaunchOptions
from pai_task.plan import OnPreemption
from pai_task.record import replace
from tests.support import until
from tests.task_harness import TaskRun, make_fifo, plan, shell

pytestmark = pytest.mark.process

_TRAIN = """
import os, signal, threading
rank = os.environ.get("RANK", "0")
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
open(f"ready{rank}", "w").close()
while not told.wait(0.05):
    pass
threading.Event().wait(0.3)  # the time that it takes
print("saved", rank, flush=True)
"""

_PYTHON = shlex.quote(sys.executable)
_SCRIPT = f"{_PYTHON} train.py; true"
_WAYS = {
    "a program": f"{_PYTHON} train.py",
    "one in sh -c": shlex.join(["sh", "-c", _SCRIPT]),
    "one in a shell in a shell": shlex.join(["bash", "-c", f"{shlex.join(['bash', '-c', _SCRIPT])}; true"]),
    "a module": f"{_PYTHON} -m train",
    "one with a time limit": f"timeout 1000 {_PYTHON} train.py",
    "one in a session of its own": f"setsid --wait {_PYTHON} train.py",
    "one in the background, in a session of its own": f"setsid {_PYTHON} train.py &\nwait",
    "one in the background of a shell with a trap": f"trap : TERM\n{_PYTHON} train.py &\nwait || wait",
    "one below a shell with job control": f"set -m\n{_PYTHON} train.py; true",
    "one with a log": f"{_PYTHON} train.py 2>&1 | tee log",
    "one with a slow reader": f"{_PYTHON} train.py | {{ : >log; read -r line; sleep 0.5; echo $line; }}",
    "one with a log, in a shell with a trap": f"trap : TERM\n{_PYTHON} train.py 2>&1 | tee log",
}


def _saved(folder: Path, command: str, ranks: int = 1) -> list[str]:
    """What training printed after its task was told to stop."""
    for rank in range(ranks):
        make_fifo(folder, f"ready{rank}")
    (folder / "work" / "train.py").write_text(_TRAIN)
    run = TaskRun(plan(folder, command), LaunchOptions(grace=60))
    for rank in range(ranks):
        run.wait_for(f"ready{rank}")
    if "log" in command:  # before its reader makes that, it may be a shell without the pipe
        until((folder / "work/log").exists)
    run.send(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM
    assert run.record["outcome"] == "cancelled"
    lines = run.stdout_log.decode().splitlines()
    return sorted(line.partition("saved ")[2] for line in lines if "saved" in line)


@pytest.mark.parametrize("way", _WAYS)
def test_training_saves_its_work_when_the_task_is_told_to_stop(tmp_path: Path, way: str) -> None:
    assert _saved(tmp_path, _WAYS[way]) == ["0"]


@pytest.mark.needs("python3-torch")
def test_every_process_of_torchrun_saves_its_work_when_the_task_is_told_to_stop(tmp_path: Path) -> None:
    # Debian's PyTorch takes no other values of the last two options with its Python.
    launcher = "/usr/bin/python3 -m torch.distributed.run --standalone --nproc_per_node 2 -r 1 -t 1"
    assert _saved(tmp_path, f"sh -c '{launcher} train.py; true'", ranks=2) == ["0", "1"]


_ON_SIGNAL = "trap 'sleep 0.3; echo saved > file; exit' USR1; echo > ready; while :; do sleep 0.05; done"
_SAVES = f"sh -c {shlex.quote(_ON_SIGNAL)}; true"
_WAITS = "echo > ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("command", "wanted", "completed", "saved"),
    [
        (_SAVES, OnPreemption(60, "SIGUSR1"), True, "saved\n"),
        (_SAVES.replace("0.3", "1000"), OnPreemption(0.2, "SIGUSR1"), False, None),
        (_WAITS, OnPreemption(60, "SIGUSR1"), False, None),
        (_WAITS, OnPreemption(60, "SIGTERM"), False, None),
        (_SAVES.replace("USR1", "TERM"), OnPreemption(60, "SIGTERM"), True, "saved\n"),
        (_WAITS, OnPreemption(60, script="echo saved > file"), True, "saved\n"),
        (_WAITS, OnPreemption(60, script="echo half > file; false"), False, "half\n"),
        (_WAITS, OnPreemption(0.2, script="sleep 1000"), False, None),
        (_SAVES, OnPreemption(60, "SIGUSR1", "echo saved > other"), True, "saved\n"),
    ],
)
def test_the_record_says_whether_work_was_saved_before_the_end(
    tmp_path: Path, command: str, wanted: OnPreemption, completed: object, saved: str | None
) -> None:
    make_fifo(tmp_path, "ready")
    task = plan(tmp_path, command, [shell("taskExits", 0, "echo exits")])
    run = TaskRun(
        replace(task, command=replace(task.command, on_preemption=wanted)), LaunchOptions(grace=0.2)
    )
    run.wait_for("ready")
    run.send(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM
    assert run.record["outcome"] == "cancelled"
    assert run.record["preemption"]["completed"] is completed
    assert "exits" in run.runtime_log
    file = tmp_path / "work" / "file"
    assert (file.read_text() if file.exists() else None) == saved


def test_what_does_not_end_in_another_session_is_killed_before_the_exit_callbacks(tmp_path: Path) -> None:
    make_fifo(tmp_path, "ready")
    deaf = "trap '' TERM; echo $$ > pid; echo > ready; while :; do sleep 0.05; done"
    run = TaskRun(plan(tmp_path, f"setsid sh -c {shlex.quote(deaf)}"), LaunchOptions(grace=0.2))
    run.wait_for("ready")
    pid = int((tmp_path / "work" / "pid").read_text())
    run.send(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _with_lifeline(folder: Path, script: str) -> tuple[TaskRun, int]:
    """A task that has written to its FIFO ``ready``, and the other end of its lifeline."""
    make_fifo(folder, "ready")
    read, write = os.pipe()
    own = plan(folder, script, [shell("taskExits", 0, "echo bye")])
    run = TaskRun(own, LaunchOptions(lifeline_fd=read), fds=[read])
    os.close(read)
    run.wait_for("ready")
    return run, write


def test_the_end_of_whoever_holds_its_lifeline_tells_a_task_to_stop(tmp_path: Path) -> None:
    run, write = _with_lifeline(tmp_path, "echo >ready; sleep 100")
    os.close(write)
    assert run.end() == 128 + signal.SIGTERM
    assert run.record["outcome"] == "cancelled"


@pytest.mark.parametrize("again", ["lifeline", "signal"])
def test_with_a_lifeline_a_task_that_is_told_again_has_its_exit_callbacks(tmp_path: Path, again: str) -> None:
    for name in ("told", "go"):
        make_fifo(tmp_path, name)
    run, write = _with_lifeline(
        tmp_path, "trap 'echo >told; read -r _ <go; exit' TERM; echo >ready; sleep 100 & wait"
    )
    run.send(signal.SIGTERM)
    run.wait_for("told")
    if again == "signal":
        run.send(signal.SIGTERM)
    else:
        os.close(write)
    (tmp_path / "work" / "go").write_text("go\n")
    assert run.end() == 128 + signal.SIGTERM
    assert any("bye" in line for line in run.runtime_log)
    if again == "signal":
        os.close(write)


@pytest.mark.parametrize(("gang", "tells"), [(True, False), (False, True)])
def test_a_failed_task_that_is_ended_because_of_another_one_does_not_tell_of_the_run(
    tmp_path: Path, *, gang: bool, tells: bool
) -> None:
    steps = [shell("taskExits", 0, "echo > failed"), shell("runEnds", 0, "touch told")]
    make_fifo(tmp_path, "failed")
    run = TaskRun(replace(plan(tmp_path, "exit 3", steps), index=1, gang=gang))
    run.wait_for("failed")
    if gang:
        run.send(signal.SIGTERM)
    assert (run.end(), (tmp_path / "work/told").exists()) == (3, tells)
