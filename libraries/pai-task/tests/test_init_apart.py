"""The init steps in a process of their own, before the one that runs the rest of the plan."""

import json
import signal
from pathlib import Path
from typing import get_args

import pytest

from pai_task.exit_codes import RUNTIME_ERROR, SETUP_FAILED
from pai_task.launch import LaunchOptions
from pai_task.supervisor.resuming import FAILURES
from pai_task.vocabulary import Outcome
from tests.task_harness import TaskRun, make_fifo, plan, run_task, shell

pytestmark = pytest.mark.process

_INIT, _REST = LaunchOptions(phases="init"), LaunchOptions(phases="rest")
_NOTES = [
    shell(phase, use, f"echo {phase} {use} >> ran")
    for phase in ("init", "taskStarts", "taskSucceeds", "taskFails", "taskExits")
    for use in (0, 1)
]


def _ran(run: TaskRun) -> list[str]:
    return (run.folder / "work" / "ran").read_text().splitlines()


def test_both_together_run_what_one_process_runs(tmp_path: Path) -> None:
    alone = run_task(plan(tmp_path / "alone", "echo command >> ran", _NOTES))
    given = plan(tmp_path / "apart", "echo command >> ran", _NOTES)
    init = run_task(given, _INIT)
    assert (init.process.returncode, _ran(init)) == (0, ["init 0", "init 1"])
    assert not (init.folder / "exit.yaml").exists()
    rest = run_task(given, _REST)
    assert rest.process.returncode == 0
    assert _ran(rest) == _ran(alone)


def _failing(tmp_path: Path, *, script: str = "exit 3") -> tuple[TaskRun, TaskRun]:
    """The second use fails its init; the third never starts."""
    steps = [shell("init", 0, "true"), shell("init", 1, script), shell("init", 2, "touch third"), *_NOTES[4:]]
    steps += [shell("taskExits", 2, "echo taskExits 2 >> ran")]
    given = plan(tmp_path, "echo command >> ran", steps)
    return run_task(given, _INIT), run_task(given, _REST)


def test_init_that_failed_ends_the_task_with_the_callbacks_of_the_uses_that_started(tmp_path: Path) -> None:
    init, rest = _failing(tmp_path)
    assert (init.process.returncode, rest.process.returncode) == (SETUP_FAILED, SETUP_FAILED)
    assert _ran(rest) == ["taskFails 1", "taskFails 0", "taskExits 1", "taskExits 0"]
    assert (rest.record["outcome"], rest.record["phase"]) == ("setup-failed", "init")
    assert rest.record["failedUse"]["use"] == "b"


def test_init_that_failed_leaves_a_record_though_nothing_follows_it(tmp_path: Path) -> None:
    init = run_task(plan(tmp_path, "true", [shell("init", 0, "exit 3")]), _INIT)
    assert init.record["exitCode"] == SETUP_FAILED


def test_init_that_was_cancelled_is_followed_by_the_exit_callbacks_only(tmp_path: Path) -> None:
    given = plan(tmp_path, "echo command >> ran", [shell("init", 0, "echo > ready; sleep 1000"), *_NOTES[2:]])
    make_fifo(tmp_path, "ready")
    init = TaskRun(given, _INIT)
    init.wait_for("ready")
    init.send(signal.SIGTERM)
    assert init.end() == 143
    rest = run_task(given, _REST)
    assert (rest.process.returncode, _ran(rest)) == (143, ["taskExits 0"])


def test_every_way_to_fail_is_known() -> None:
    assert {"ok", *FAILURES} == {name for each in get_args(Outcome) for name in get_args(each) or (each,)}


def test_init_that_was_killed_ends_the_task(tmp_path: Path) -> None:
    given = plan(tmp_path, "echo command >> ran", [shell("init", 0, "kill -KILL $PPID"), *_NOTES[2:]])
    assert run_task(given, _INIT).process.returncode == -signal.SIGKILL
    rest = run_task(given, _REST)
    assert rest.process.returncode == SETUP_FAILED
    assert _ran(rest) == ["taskFails 0", "taskExits 0"]


def test_the_last_of_several_tries_counts(tmp_path: Path) -> None:
    given = plan(
        tmp_path, "echo command >> ran", [shell("init", 0, "[ -e again ] || { touch again; exit 1; }")]
    )
    assert [run_task(given, _INIT).process.returncode for _ in range(2)] == [SETUP_FAILED, 0]
    rest = run_task(given, _REST)
    assert (rest.process.returncode, _ran(rest)) == (0, ["command"])


@pytest.mark.parametrize("events", [None, "", '{"time": 1, "event": "initEnded", "exitCode": 0}\n'])
def test_a_plan_whose_init_has_not_run_is_refused(tmp_path: Path, events: str | None) -> None:
    if events is not None:
        (tmp_path / "events.jsonl").write_text(events)
    run = run_task(plan(tmp_path, "echo command >> ran", [shell("init", 0, "true")]), _REST)
    assert run.process.returncode == RUNTIME_ERROR
    assert not (tmp_path / "work" / "ran").exists()


def test_a_plan_without_init_needs_none(tmp_path: Path) -> None:
    assert run_task(plan(tmp_path, "true"), _REST).process.returncode == 0


@pytest.mark.parametrize(
    "change",
    [
        {"useIndex": 99},
        {"useIndex": "x"},
        {"outcome": "splendid"},
        {"outcome": "ok"},
        {"exitCode": None},
        {"exitCode": 10**30},
        {"message": "\ud800"},
        {"time": 10**30},
    ],
    ids=str,
)
def test_events_that_a_task_has_changed_do_not_harm_the_supervisor(
    tmp_path: Path, change: dict[str, object]
) -> None:
    given = plan(tmp_path, "touch ran", [shell("init", 0, "exit 3")])
    run_task(given, _INIT)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    (tmp_path / "events.jsonl").write_text(
        "".join(json.dumps({**json.loads(line), **change}) + "\n" for line in lines)
    )
    rest = run_task(given, _REST)
    assert rest.process.returncode in (SETUP_FAILED, RUNTIME_ERROR)
    assert not (tmp_path / "work" / "ran").exists()
    assert b"Traceback" not in rest.stderr
    assert not any("Traceback" in line for line in rest.runtime_log)


def test_init_that_failed_is_known_to_have_failed_though_a_full_disk_has_lost_how(tmp_path: Path) -> None:
    given = plan(tmp_path, "touch ran", [shell("init", 0, "exit 3")])
    run_task(given, _INIT)
    lines = (tmp_path / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_text("".join(line for line in lines if '"decided"' not in line))
    assert run_task(given, _REST).process.returncode == SETUP_FAILED
    assert not (tmp_path / "work" / "ran").exists()
