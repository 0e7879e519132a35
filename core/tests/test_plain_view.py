"""How a run is told where there is no live view: a line for each thing that matters, once."""

import io
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.reader import LogName, activity
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal import view as view_module
from pai_runtime.terminal.news import Gaps
from pai_runtime.terminal.view import PlainView, can_be_live
from tests.played_run import PlayedRun
from tests.small_cluster import SmallCluster, SmallLog, SmallRunReader


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_LOOK_EVERY", 0.0)


def told(view: PlainView, played: PlayedRun, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What is new on standard error."""
    view.show(played.run)
    printed = capfd.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_a_task_that_is_held_is_told_with_how_to_end_that(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=2), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    until = time.mktime((2030, 1, 1, 14, 3, 10, 0, 0, -1))
    played.progress("worker/0", "held", heldUntil=until, release="/run/worker/0/release")
    line = (
        "pai-runtime: worker/0 has failed and is held for debugging until 14:03:10; "
        f"to look at it: pai-runtime exec {shlex.quote(str(tmp_path))} worker/0; "
        "to release it: touch /run/worker/0/release"
    )
    assert told(view, played, capfd) == [line]
    assert told(view, played, capfd) == []


def test_a_note_of_another_line_of_code_is_told_and_one_with_another_number_is_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=3), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    for index, note in enumerate(
        ("at train.py:88 for 30 s", "at train.py:88 for 31 s", "at train.py:93 for 30 s")
    ):
        played.progress(f"worker/{index}", "command", notes=[note])
    assert told(view, played, capfd) == [
        "pai-runtime: worker/0: at train.py:88 for 30 s",
        "pai-runtime: worker/2: at train.py:93 for 30 s",
    ]


NOTED = "pai-runtime: note of worker/0, worker/1, but not of worker/2"


@pytest.mark.parametrize(
    ("last", "state", "expected"),
    [
        ({"at": "in load (train.py:3)"}, "running", [f"{NOTED} (in load (train.py:3)): it waits"]),
        ({}, "succeeded", [f"{NOTED} (succeeded): it waits"]),
        (
            {"notes": ["it reads"]},
            "running",
            ["pai-runtime: worker/2: it reads", f"{NOTED} (it reads): it waits"],
        ),
        ({}, "running", []),  # it may be noted soon
        ({"notes": ["it waits"]}, "running", []),
    ],
)
def test_the_few_tasks_that_lack_a_note_are_told_once_with_where_they_are(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    last: dict[str, Any],
    state: str,
    expected: list[str],
) -> None:
    played, view = PlayedRun(tmp_path, worker=3, server=1), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    for index in (0, 1):
        played.progress(f"worker/{index}", "command", notes=["it waits"])
    played.progress("worker/2", "command", **last)
    played.set("worker/2", state)
    assert told(view, played, capfd) == ["pai-runtime: worker/0: it waits", *expected]
    assert told(view, played, capfd) == []


def test_those_that_lack_a_note_are_told_in_any_case_when_it_has_spread_no_further_for_a_minute(
    tmp_path: Path,
) -> None:
    played, gaps = PlayedRun(tmp_path, worker=3), Gaps()
    played.all("running")
    for index in (0, 1):
        played.progress(f"worker/{index}", "command", notes=["it waits"])
    played.progress("worker/2", "command")
    activities = activity(played.reader, played.run)
    assert [list(gaps.of(played.run, activities, now)) for now in (0, 59, 61, 200)] == [
        [],
        [],
        ["note of worker/0, worker/1, but not of worker/2: it waits"],
        [],
    ]


def test_where_a_service_is_found_is_told_once_and_that_a_task_lingers_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=2), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    played.progress("worker/0", "command", addresses={"board": "http://10.0.0.7:1"})
    assert told(view, played, capfd) == ["pai-runtime: worker/0 serves board at http://10.0.0.7:1"]
    until = time.mktime((2030, 1, 1, 14, 3, 10, 0, 0, -1))
    played.progress("worker/0", "lingering", ago=1000, heldUntil=until, release="/run/release")
    line = (
        "pai-runtime: worker/0 has ended and lingers with its services until 14:03:10; "
        "to release it: touch /run/release"
    )
    assert told(view, played, capfd) == [line]


def test_a_service_that_failed_is_told_once_with_where_its_output_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=2), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    played.progress("worker/1", "command", failedServices={"board": "exit code 1"})
    log = f"pai-runtime logs {shlex.quote(str(tmp_path))} worker/1 --runtime"
    line = f"pai-runtime: service 'board' of worker/1 failed: exit code 1; its output: {log}"
    assert told(view, played, capfd) == [line]
    played.progress("worker/0", "command", failedServices={"board": "exit code 1"})
    assert told(view, played, capfd) == [], "for the same reason"
    played.progress("worker/0", "command", failedServices={"board": "not ready after 9 s"})
    assert len(told(view, played, capfd)) == 1


@pytest.mark.parametrize("shows_output", [True, False])
@pytest.mark.parametrize(("output", "between"), [(b"a\nhalf", b"\n"), (b"whole\n", b""), (b"", b"")])
def test_a_message_does_not_stand_in_an_unfinished_line_of_output(
    tmp_path: Path, output: bytes, between: bytes, *, shows_output: bool
) -> None:
    played, view = (
        PlayedRun(tmp_path, worker=1),
        PlainView(LocalRunReader(tmp_path), shows_output=shows_output),
    )
    played.all("running")
    played.output("worker/0", output)
    with _one_file_for_both(tmp_path / "seen") as seen:
        if not shows_output:
            os.write(1, output)
        view.show(played.run)
        view.tell(["the job failed", "  why"])
        view.say("that is all")
        assert seen.read_bytes() == output + between + (
            b"pai-runtime: the job failed\n  why\npai-runtime: that is all\n"
        )


@contextmanager
def _one_file_for_both(path: Path) -> Iterator[Path]:
    """Lead standard output and error to one file."""
    kept = {number: os.dup(number) for number in (1, 2)}
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(fd, number)
        yield path
    finally:
        for number, before in kept.items():
            os.dup2(before, number)
            os.close(before)
        os.close(fd)


def test_a_step_that_takes_long_is_told_at_doubling_times(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=2), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    began = time.time()
    lines = []
    for ago in (0, 1200, 1300, 2600, 4000):  # between 1280 and 2560, between 2560 and 5120
        played.progress("worker/0", "taskStarts", "cars", since=began)
        played.progress("worker/1", "command", since=began - ago)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda now=began + ago: now)
            lines.append(told(view, played, capfd))
    said = "pai-runtime: worker/0 has been in taskStarts, 'cars', for"
    assert lines == [[], [f"{said} 20m00s"], [f"{said} 21m40s"], [f"{said} 43m20s"], []]


def test_after_ctrl_c_it_tells_soon_what_each_task_still_does_and_when_it_has_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=5), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    played.progress("worker/0", "command", stopping=15, ago=2)
    played.progress("worker/1", "command", stopping=9, ago=2)
    played.progress("worker/2", "taskExits", "copy", ago=2)
    played.progress("worker/3", "ending", ago=2)
    played.progress("worker/4", "taskExits", "copy")
    view.show(replace(played.run, stopping=True))
    assert capfd.readouterr().err.splitlines() == [
        "pai-runtime: worker/0 has been stopping its command for 2s",
        "pai-runtime: worker/1 has been killing its command for 2s",
        "pai-runtime: worker/2 has been in taskExits, 'copy', for 2s",
        "pai-runtime: worker/3 has been stopping its services for 2s",
    ]
    played.set("worker/0", "stopped", exitCode=143)
    view.show(replace(played.run, stopping=True))
    assert capfd.readouterr().err == "pai-runtime: worker/0 has ended: stopped, exit code 143\n"


def test_a_command_that_is_stopped_by_itself_is_told_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=1), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    played.progress("worker/0", "command", stopping=15, ago=2)
    assert told(view, played, capfd) == ["pai-runtime: worker/0 has been stopping its command for 2s"]


def test_of_many_tasks_that_are_stopped_some_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, view = PlayedRun(tmp_path, worker=200), PlainView(LocalRunReader(tmp_path))
    played.all("running")
    for index in range(200):
        played.progress(f"worker/{index}", "command", stopping=15, ago=2)
    lines = told(view, played, capfd)
    assert (len(lines), lines[-1]) == (11, "pai-runtime: and so on for 190 more tasks")


class _SlowLog(SmallLog):
    """A log of which a piece comes each time that somebody looks."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__("", b"")
        self.pieces = list(pieces)

    def read(self, _most: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    def is_at_end(self) -> bool:
        return not self.pieces


class _SlowReader(SmallRunReader):
    """A run whose first task has this log."""

    def __init__(self, log_of_first: SmallLog) -> None:
        super().__init__(SmallCluster(), "demo-bcdfg")
        self._log_of_first = log_of_first

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> SmallLog:
        return super().log(task, log, attempt) if task.index else self._log_of_first


def test_what_comes_from_a_cluster_after_the_end_of_a_task_is_shown_in_whole_lines(
    capfd: pytest.CaptureFixture[str],
) -> None:
    tasks = (
        RunTask("worker", 0, "succeeded", 0, 0, 0.0, 1.0),
        RunTask("worker", 1, "running", None, 0, 0.0, None),
    )
    log = _SlowLog(b"half", b"", b" a line\n", b"rest", b"")
    view = PlainView(_SlowReader(log), shows_output=True)

    def shown() -> str:
        view.show(Run("demo", "small", "job.yaml", 0.0, 0, tasks))
        return capfd.readouterr().out

    assert [shown() for _ in range(5)] == ["", "", "worker/0 | half a line\n", "", "worker/0 | rest\n"]
    assert shown() == ""
    log.pieces.append(b"another attempt\n")
    assert shown() == "worker/0 | another attempt\n"


class _Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("stdout", "stderr", "term", "live"),
    [
        (True, True, "xterm", True),
        (False, True, "xterm", False),
        (True, False, "xterm", False),
        (True, True, "dumb", False),
        (True, True, None, False),
    ],
)
def test_the_view_is_live_only_on_a_terminal_that_can_show_it(
    monkeypatch: pytest.MonkeyPatch,
    stdout: bool,  # noqa: FBT001
    stderr: bool,  # noqa: FBT001
    term: str | None,
    live: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr("sys.stdout", _Stream(terminal=stdout))
    monkeypatch.setattr("sys.stderr", _Stream(terminal=stderr))
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert can_be_live() == live
