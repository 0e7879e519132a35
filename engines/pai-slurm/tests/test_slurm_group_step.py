"""The side of the run in a step for many tasks, with another program in place of ``srun``."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_runtime.engine.local import Folder, Launch
from pai_slurm import group_step
from pai_slurm.allocation import Place
from pai_slurm.group_step import GroupStep
from pai_slurm.shapes import Shape
from tests.support import content, until

pytestmark = pytest.mark.process

_PLACE = Place("n1", None, Shape(1, 100, 0))
_HANGS = "exec sleep 1000"
_MANY = 300
_LONG = "x" * 1000


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Folder]:
    before = signal.getsignal(signal.SIGIO)
    with Folder.at(tmp_path) as folder:
        yield folder
    signal.signal(signal.SIGIO, before)


def _step(run: Folder, program: str) -> GroupStep:
    return GroupStep(["/bin/sh", "-c", program], _PLACE, 8, run)


def _launch(step: GroupStep, number: int, options: str = "{}") -> None:
    step.launch(number, Launch(f"/run/worker/{-number}", dict(os.environ), options), {})


def _end(step: GroupStep) -> int:
    """Wait for the end of a step whose input is open, as the run does; its wait status."""
    assert step.pid is not None
    return os.waitpid(step.pid, 0)[1]


def _open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_requests_that_a_step_does_not_read_yet_are_sent_as_soon_as_it_does(
    run: Folder, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    step = _step(run, f"read x <{tmp_path}/go; exec cat >{tmp_path}/requests")
    woken: list[int] = []
    for number in range(1, _MANY + 1):
        _launch(step, -number, _LONG)
    step.tell(-1, signal.SIGTERM)
    assert list(step.ended()) == []
    signal.signal(signal.SIGIO, lambda *_: woken.append(0))
    (tmp_path / "go").write_text("\n")
    until(lambda: woken)
    last = json.dumps(["stop", -1]).encode() + b"\n"
    until(lambda: list(step.ended()) or content(tmp_path / "requests").endswith(last))
    lines = (tmp_path / "requests").read_bytes().splitlines()[1:]  # after the secrets
    asked = [json.loads(line.removeprefix(b"{}")) for line in lines]
    starts = [["start", -number, f"/run/worker/{number}", _LONG] for number in range(1, _MANY + 1)]
    assert asked == [*starts, ["stop", -1]]
    step.close()
    step.wait(time.monotonic() + 60)
    assert step.pid is None


def test_a_step_that_does_not_kill_a_task_in_time_is_itself_killed(
    run: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_step, "_KILLED_WITHIN", 0)
    step = _step(run, _HANGS)
    for number in (-1, -2):
        _launch(step, number)
    step.tell(-1, signal.SIGTERM)
    step.tell(-1, signal.SIGKILL)
    step.tell(-2, signal.SIGKILL)
    assert step.pid is not None
    assert os.waitpid(step.pid, os.WNOHANG) == (0, 0)
    step.tell(-1, signal.SIGKILL)
    status = _end(step)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert sorted(step.has_ended(status)) == [(-2, status), (-1, status)]


def test_a_task_that_is_started_in_a_step_that_is_just_ending_ends_with_it_and_knows_only_its_words(
    run: Folder,
) -> None:
    step = _step(run, "echo 'srun: error: Node failure on n1' >&2; exit 3")
    _launch(step, -1)
    assert step.pid is not None
    os.waitid(os.P_PID, step.pid, os.WEXITED | os.WNOWAIT)
    _launch(step, -2)
    status = _end(step)
    assert sorted(step.has_ended(status)) == [(-2, 3 << 8), (-1, 3 << 8)]
    again = _step(run, "exit 4")
    _launch(again, -3)
    assert list(again.has_ended(_end(again))) == [(-3, 4 << 8)]
    assert [step.last_words(f"/run/worker/{number}") for number in (1, 2)] == ["Node failure on n1"] * 2
    assert again.last_words("/run/worker/3") == ""


def test_a_step_that_does_not_end_with_its_input_is_killed(
    run: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(group_step, "_KILLED_WITHIN", 0)
    step = _step(run, f"trap '' TERM; touch {tmp_path}/up; {_HANGS}")
    _launch(step, -1)
    until((tmp_path / "up").exists)
    step.close()
    step.wait(time.monotonic())
    assert step.pid is None


def test_a_step_that_cannot_be_started_leaves_nothing_open(run: Folder) -> None:
    step = GroupStep(["/nonexistent"], _PLACE, 8, run)
    before = _open_files()
    with pytest.raises(FileNotFoundError):
        _launch(step, -1)
    assert _open_files() == before
    assert step.pid is None
