"""A task that failed is held for debugging, if its job says so, and can be seen and released."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pai_task import state
from pai_task.plan import Step
from tests.support import cli, job, until, write_job
from tests.task_harness import TaskRun, plan, run_task, shell

pytestmark = pytest.mark.process

LONG = 1000.0
SCHEMA = json.loads(Path(state.__file__).with_name("state.schema.json").read_text())


def _state(run: TaskRun) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run.folder / "state.json").read_text())
    jsonschema.validate(document, SCHEMA)
    return document


def _held(tmp_path: Path, command: str, *steps: Step) -> TaskRun:
    """A task that is being held."""
    run = TaskRun(replace(plan(tmp_path, command, steps), hold=LONG))

    def look() -> bool:
        assert run.process.poll() is None
        return _state_if_any(run) == "held"

    until(look)
    return run


def _state_if_any(run: TaskRun) -> str | None:
    try:
        return str(_state(run)["phase"])
    except FileNotFoundError:
        return None


RELEASES: dict[str, Callable[[TaskRun], object]] = {
    "a file": lambda run: Path(_state(run)["release"]).touch(),
    "a signal": lambda run: os.kill(_state(run)["pid"], signal.SIGUSR1),
    "being told to stop": lambda run: run.send(signal.SIGTERM),
}


@pytest.mark.parametrize("release", RELEASES)
def test_a_failed_task_is_held_until_it_is_released(tmp_path: Path, release: str) -> None:
    run = _held(tmp_path, "exit 7", shell("taskFails", 0, "echo tidy > tidied"))
    assert not (tmp_path / "work/tidied").exists()
    RELEASES[release](run)
    assert run.end() == 7
    assert (tmp_path / "work/tidied").exists()
    assert (run.record["outcome"], _state(run)["phase"]) == ("failed", "ended")
    log = "\n".join(run.runtime_log)
    assert f"the task is held for 1000 s for debugging; to release it: touch {tmp_path}/release" in log


def test_a_task_whose_setup_failed_is_held_too(tmp_path: Path) -> None:
    run = _held(tmp_path, "true", shell("taskStarts", 0, "false"))
    (tmp_path / "release").touch()
    assert run.end() == 240


def test_being_held_ends_with_its_time(tmp_path: Path) -> None:
    run = run_task(replace(plan(tmp_path, "exit 7"), hold=0.01))
    assert run.process.returncode == 7
    assert run.runtime_log[-1] == "[INFO] the task is no longer held"


@pytest.mark.parametrize("command", ["true", "kill -TERM $PPID; sleep 1000"])
def test_a_task_that_is_well_or_was_cancelled_is_not_held(tmp_path: Path, command: str) -> None:
    run = run_task(replace(plan(tmp_path, command), hold=LONG))
    assert not any("held" in line for line in run.runtime_log)


def test_the_job_says_for_how_long(tmp_path: Path) -> None:
    document = job(extras={"holdOnFailure": "1.5m"})
    planned = cli("plan", write_job(tmp_path, document), "--task", "worker/0", "--json")
    assert json.loads(planned.stdout)["hold"] == 90


@pytest.mark.parametrize("time", ["long", "-1s", "5", "99999999h", 5, True])
def test_a_time_that_is_none_is_refused_with_its_position(tmp_path: Path, time: Any) -> None:
    checked = cli("validate", write_job(tmp_path, job(extras={"holdOnFailure": time})))
    assert checked.returncode == 1
    assert "extras.holdOnFailure" in checked.stderr + checked.stdout
    assert "90s, 15m or 2h" in checked.stderr + checked.stdout
