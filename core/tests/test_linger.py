"""Services that people come to: their address is told, and they may outlive the task for a while."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pai_task import state
from pai_task.plan import PlannedService, Service
from tests.plugin_factory import Site, uses
from tests.support import PROGRAM, job, until, write_job
from tests.task_harness import TaskRun, plan, run_task, shell

pytestmark = pytest.mark.process

LONG = 1000.0
SCHEMA = json.loads(Path(state.__file__).with_name("state.schema.json").read_text())
SERVES = "trap 'echo stopped; exit 0' TERM\necho serving; touch up\nwhile :; do sleep 0.01; done"
BOARD = Service("board", SERVES, probe="[ -e up ]", address="http://$HOST:6006", linger=LONG)


def _task(folder: Path, command: str, *services: Service, **more: Any) -> TaskRun:
    steps = [shell("taskStarts", 0, "export HOST=here"), shell("taskExits", 0, "echo tidy")]
    planned = tuple(PlannedService(0, service) for service in services)
    return TaskRun(replace(plan(folder, command, steps), services=planned), **more)


def _state(folder: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((folder / "state.json").read_text())
    except FileNotFoundError:
        return {"phase": None}
    jsonschema.validate(document, SCHEMA)
    return document


def _lingering(run: TaskRun) -> TaskRun:
    """The same, once it does."""
    _wait_for(run.folder, "lingering", run.process)
    return run


def _wait_for(folder: Path, phase: str, process: subprocess.Popen[bytes]) -> None:
    def look() -> bool:
        assert process.poll() is None
        return bool(_state(folder)["phase"] == phase)

    until(look)


UNTIL_UP = "until grep -q \"'board' is ready\" ../logs/runtime.log; do sleep 0.02; done\n"
RELEASES: dict[str, Callable[[TaskRun], object]] = {
    "a file": lambda run: Path(_state(run.folder)["release"]).touch(),
    "a signal": lambda run: os.kill(_state(run.folder)["pid"], signal.SIGUSR1),
    "being told to stop": lambda run: run.send(signal.SIGTERM),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("code", [0, 7])
def test_a_service_outlives_the_task_until_it_is_released_and_the_task_ends_as_it_did(
    tmp_path: Path, release: str, code: int
) -> None:
    run = _lingering(_task(tmp_path, f"{UNTIL_UP}exit {code}", BOARD))
    assert run.record["exitCode"] == code  # even if all is killed now
    assert "tidy" in run.runtime_log
    assert "stopped" not in run.runtime_log
    RELEASES[release](run)
    assert run.end() == code
    assert (run.record["exitCode"], _state(run.folder)["phase"]) == (code, "ended")
    log = run.runtime_log
    assert log.index("[INFO] the task is no longer lingering") < log.index("stopped")


def test_lingering_ends_with_its_time(tmp_path: Path) -> None:
    run = _task(tmp_path, UNTIL_UP, replace(BOARD, linger=0.01))
    assert run.end() == 0
    assert "[INFO] the task is no longer lingering" in run.runtime_log


def test_each_service_lingers_for_its_own_time(tmp_path: Path) -> None:
    serves = SERVES.replace("echo stopped", "echo brief stopped").replace("touch up", "touch brief")
    brief = Service("brief", serves, probe="[ -e brief ]")
    both_up = UNTIL_UP + UNTIL_UP.replace("board", "brief")
    run = _lingering(_task(tmp_path, both_up, brief, BOARD))
    until(lambda: "brief stopped" in run.runtime_log)
    assert "stopped" not in run.runtime_log
    RELEASES["a file"](run)
    assert run.end() == 0


USELESS = {
    "has ended": replace(BOARD, script="exit 0"),
    "is not ready in time": replace(BOARD, probe="false", ready_within=0.1),
    "is not to outlive it": replace(BOARD, linger=0),
}


@pytest.mark.parametrize("how", USELESS)
def test_a_task_does_not_wait_for_a_service_that(tmp_path: Path, how: str) -> None:
    run = _task(tmp_path, "true", USELESS[how])
    assert run.end() == 0


def test_a_cancelled_task_does_not_linger(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work/begun")
    run = _task(tmp_path, f"{UNTIL_UP}echo > begun; sleep 1000", BOARD)
    run.wait_for("begun")
    run.send(signal.SIGTERM)
    assert run.end() == 143
    assert not any("lingering" in line for line in run.runtime_log)


LINGERS = f"""
from pai_runtime.plugin import Service
@hookimpl
def pai_prerequisite(use, task):
    return Contribution(services=[Service("board", {SERVES!r}, "[ -e up ]", required=True, linger={LONG})])
"""


@pytest.mark.parametrize(
    ("command", "other", "code", "outcome", "states"),
    [
        ("exit 0", None, 0, "succeeded", ["succeeded"]),
        ("exit 7", None, 7, "failed", ["failed"]),
        ("exit 0", "sleep 1000", 130, "cancelled", ["succeeded", "stopped"]),
    ],
)
def test_a_run_that_is_cancelled_while_tasks_linger_ends_as_their_results_say(
    tmp_path: Path, command: str, other: str | None, code: int, outcome: str, states: list[str]
) -> None:
    site = Site(tmp_path)
    site.add("org.board", LINGERS)
    fields = uses("org.board")
    fields["worker"]["commands"] = [command]
    document = job(**fields)
    if other:  # and the job needs both
        worker = document["taskRoles"]["worker"]
        worker["completion"] = {"minSucceededInstances": -1}
        document["taskRoles"]["other"] = {**worker, "prerequisites": [], "commands": [other]}
    path, folder = write_job(tmp_path, document), tmp_path / "run"
    with subprocess.Popen(
        [PROGRAM, "run", path, "--out", folder], env={**os.environ, **site.environment()}
    ) as run:
        try:
            _wait_for(folder / "worker/0", "lingering", run)
            if other:
                _wait_for(folder / "other/0", "command", run)
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == code
        finally:
            run.kill()
    record = json.loads((folder / "run.json").read_text())
    assert (record["outcome"], [task["state"] for task in record["tasks"]]) == (outcome, states)
    log = (folder / "worker/0/logs/runtime.log").read_text()
    assert "stopped" in log.partition("[INFO] the task is no longer lingering")[2]


def test_where_a_service_is_found_is_told_once_it_is_ready(tmp_path: Path) -> None:
    run = _task(tmp_path, f"{UNTIL_UP}cat ../state.json", replace(BOARD, linger=0))
    assert run.end() == 0
    assert "[INFO] service 'board' is ready: http://here:6006" in run.runtime_log
    assert json.loads(run.stdout_log)["addresses"] == {"board": "http://here:6006"}
    assert _state(run.folder)["addresses"] == {"board": "http://here:6006"}


def test_an_address_without_a_probe_is_told_at_once_and_shows_no_secret(tmp_path: Path) -> None:
    service = Service("board", "sleep 1000", address="http://$NOBODY/$KEY")
    steps = [shell("taskStarts", 0, "export KEY=\0y\0")]
    task = replace(plan(tmp_path, "true", steps), services=(PlannedService(0, service),))
    run = run_task(task, secrets={"y": "sesame-open"})
    assert "[INFO] service 'board' is ready: http://$NOBODY/******" in run.runtime_log
    assert _state(run.folder)["addresses"] == {"board": "http://$NOBODY/******"}


def test_a_service_knows_the_interpreter_of_the_runtime(tmp_path: Path) -> None:
    script = '"$PAI_RUNTIME_PYTHON" -c "print(3 * 7)"; touch up; sleep 1000'
    run = run_task(
        replace(
            plan(tmp_path), services=(PlannedService(0, Service("s", script, "[ -e up ]", required=True)),)
        )
    )
    assert "21" in run.runtime_log
