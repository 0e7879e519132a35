"""What happened in a task, and its state as a view of that."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_task import events
from pai_task.events import EventFile, read_events
from pai_task.folder import Folder
from pai_task.plan import PlannedService, Service
from pai_task.state import state_after
from tests.support import validator
from tests.task_harness import TaskRun, make_fifo, plan, run_task, shell

_STEPS = [
    shell("taskStarts", 0, "true"),
    shell("taskStarts", 1, "exit 3", "ignore"),
    shell("taskFails", 0, "true"),
    shell("taskExits", 1, "kill -KILL $$"),
]
_SERVICE = Service("web", "sleep 1000", "true", required=True, address="http://$NAME:1")


def _events(run: TaskRun) -> list[dict[str, Any]]:
    with Folder.at(run.folder) as folder:
        found = list(read_events(folder))
    for event in found:
        validator("pai_task", "events.schema.json").validate(event)
    return found


def _outline(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    shown = ("phase", "use", "service", "address", "exitCode", "signal")
    return [(event["event"], *(event[name] for name in shown if name in event)) for event in found]


@pytest.fixture
def whole(tmp_path: Path) -> TaskRun:
    """A task with something of everything, that fails."""
    given = plan(tmp_path, "exit 7", _STEPS, environment={"NAME": "host"}, uses=2)
    return run_task(replace(given, services=(PlannedService(0, _SERVICE),), hold=0.01))


@pytest.mark.process
def test_all_that_happens_in_a_task_is_told_in_order(whole: TaskRun) -> None:
    assert _outline(_events(whole)) == [
        ("supervisorStarted",),
        ("phaseStarted", "taskStarts"),
        ("stepStarted", "taskStarts", "a"),
        ("stepEnded", "taskStarts", "a", 0),
        ("serviceStarted", "web"),
        ("serviceReady", "web", "http://host:1"),
        ("stepStarted", "taskStarts", "b"),
        ("stepEnded", "taskStarts", "b", 3),
        ("phaseStarted", "command"),
        ("commandStarted",),
        ("commandEnded", 7),
        ("decided", "command", 7),
        ("decided", "command", 7),
        ("held",),
        ("released",),
        ("phaseStarted", "taskFails"),
        ("stepStarted", "taskFails", "a"),
        ("stepEnded", "taskFails", "a", 0),
        ("phaseStarted", "taskExits"),
        ("stepStarted", "taskExits", "b"),
        ("stepEnded", "taskExits", "b", 137, 9),
        ("ending",),
        ("serviceEnded", "web", 143, 15),
        ("ended", 7),
    ]


@pytest.mark.process
def test_times_never_go_back_and_have_microseconds(whole: TaskRun) -> None:
    times = [event["time"] for event in _events(whole)]
    assert times == sorted(times)
    assert any(round(time, 3) != time for time in times)


@pytest.mark.process
def test_the_state_is_what_its_events_add_up_to(whole: TaskRun) -> None:
    state: dict[str, Any] = {}
    for event in _events(whole):
        state = state_after(state, event)
        if state["phase"]:
            validator("pai_task", "state.schema.json").validate(state)
    assert state == json.loads((whole.folder / "state.json").read_text())


@pytest.mark.process
def test_each_signal_by_which_a_command_is_stopped_is_told_and_in_the_state_meanwhile(tmp_path: Path) -> None:
    for fifo in ("ready", "told"):
        make_fifo(tmp_path, fifo)
    run = TaskRun(plan(tmp_path, "trap 'echo > told' TERM\necho > ready\nwhile :; do sleep 0.01 || :; done"))
    run.wait_for("ready")
    run.send(signal.SIGTERM)
    run.wait_for("told")
    run.send(signal.SIGINT)
    run.end()
    state: dict[str, Any] = {}
    stopping = []
    for event in _events(run):
        state = state_after(state, event)
        if event["event"] == "stopping":
            stopping.append((state["phase"], state["stopping"]))
    assert stopping == [("command", signal.SIGTERM), ("command", signal.SIGKILL)]
    assert state["stopping"] is None


@pytest.mark.process
def test_a_task_that_cannot_run_says_that_it_has_ended(tmp_path: Path) -> None:
    run = TaskRun(plan(tmp_path), plan_text="{")
    run.end()
    assert _outline(_events(run)) == [("supervisorStarted",), ("ended", 241)]


@pytest.mark.process
def test_a_service_that_is_restarted_is_told_each_time(tmp_path: Path) -> None:
    service = Service("s", "[ ! -e once ] || echo > again; touch once; exit 1")
    make_fifo(tmp_path, "again")
    given = plan(tmp_path, "read line < again")
    run = run_task(replace(given, services=(PlannedService(0, replace(service, probe=None)),)))
    told = [event[0] for event in _outline(_events(run)) if "service" in event[0]]
    assert told[:3] == ["serviceStarted", "serviceEnded", "serviceStarted"]


@pytest.mark.process
def test_no_secret_is_in_an_event(tmp_path: Path) -> None:
    service = replace(_SERVICE, address="http://$NAME:1")
    given = plan(tmp_path, "true", environment={"NAME": "\0y\0"})
    run = run_task(replace(given, services=(PlannedService(0, service),)), secrets={"y": "open-sesame"})
    assert ("serviceReady", "web", "http://******:1") in _outline(_events(run))
    assert "open-sesame" not in (run.folder / "events.jsonl").read_text()


def test_the_file_is_bounded_and_its_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_BYTES", 500)
    with Folder.at(tmp_path) as folder:
        file = EventFile(folder)
        for number in range(100):
            file.add("stepEnded", exitCode=number)
        codes = [event["exitCode"] for event in read_events(folder)]
    assert codes == list(range(codes[0], 100))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000


@pytest.mark.parametrize("in_the_way", ["a folder", "a link", "nothing to write to"])
def test_what_cannot_be_written_is_no_trouble(tmp_path: Path, in_the_way: str) -> None:
    task = tmp_path / "task"
    task.mkdir()
    with Folder.at(task) as folder:
        file = EventFile(folder)
        if in_the_way == "a folder":
            (task / "events.jsonl").mkdir()
        elif in_the_way == "a link":
            (task / "events.jsonl").symlink_to(tmp_path / "elsewhere")
        else:
            task.rmdir()
        assert file.add("ended", exitCode=0)["exitCode"] == 0
        assert list(read_events(folder)) == []
    assert not (tmp_path / "elsewhere").exists()


def test_lines_that_are_no_events_are_left_out(tmp_path: Path) -> None:
    lines = [
        b'{"time": 1, "event": "ended"}',
        b"",
        b"{",
        b"[]",
        b'{"event": 5, "time": 1}',
        b'{"event": "ended", "time": 1e999}',
        b'{"event": "ended", "time": 1%s}' % (b"0" * 400),
        b'{"event": "ended", "time": true}',
        b"\xff",
        b"[" * 10**5,
    ]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines))
    with Folder.at(tmp_path) as folder:
        assert [event["event"] for event in read_events(folder)] == ["ended"]
