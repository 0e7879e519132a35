"""The process between the supervisor and the command, where Yama rules: nothing depends on it."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pai_task.plan import PlannedService, Service
from tests.support import is_running, until
from tests.task_harness import TaskRun, plan, run_task

pytestmark = pytest.mark.process

_SEES = "import os; open('.seen', 'w').write(str(os.getpid())); os.rename('.seen', 'seen')"
_WAITS = "until [ -e seen ]; do sleep 0.02; done; "


def _run(
    folder: Path, command: str, program: str = _SEES, script: str = "true", silent: float = 0.2
) -> TaskRun:
    service = Service("watch", script, when_silent=silent, ancestor=("-c", program))
    return run_task(
        replace(plan(folder, command), services=(PlannedService(0, service),)), module="tests.yama_supervisor"
    )


@pytest.mark.parametrize(("ends", "code", "number"), [("exit 5", 5, None), ("kill -9 $$", 137, 9)])
def test_a_service_is_the_parent_of_the_command_whose_end_is_seen_as_ever(
    tmp_path: Path, ends: str, code: int, number: int | None
) -> None:
    goes_on = f"{_SEES}; import time; time.sleep(1000)"
    run = _run(tmp_path, f"echo $PPID; {_WAITS}cat seen; {ends}", goes_on)
    assert run.process.returncode == code
    assert (run.record["originUserExitCode"], run.record["signal"]) == (code, number)
    parent, _, service = run.stdout_log.decode().partition("\n")
    assert parent == service


@pytest.mark.parametrize("silent", [0.2, 1000.0])
def test_a_command_that_is_not_silent_ends_as_ever(tmp_path: Path, silent: float) -> None:
    run = _run(tmp_path, "exit 3", silent=silent)
    assert run.process.returncode == 3
    assert not any("service" in line for line in run.runtime_log)


@pytest.mark.parametrize("program", ["import os; os.abort()", "raise SystemExit(3)"])
def test_its_crash_does_not_touch_the_command_and_the_service_goes_on_beside_that(
    tmp_path: Path, program: str
) -> None:
    run = _run(tmp_path, f"{_WAITS}exit 5", program, script="touch seen")
    assert run.process.returncode == 5
    assert any("service 'watch' ended with exit code" in line for line in run.runtime_log)


def test_a_command_whose_exit_status_it_has_taken_itself_still_ends(tmp_path: Path) -> None:
    """As a library may that traces the command, if that dies just then."""
    run = _run(tmp_path, f"{_WAITS}exit 5", f"{_SEES}; os.wait()")
    assert run.process.returncode == 241


def test_it_can_be_killed_before_it_is_told_anything(tmp_path: Path) -> None:
    run = _run(tmp_path, f"kill -9 $PPID; {_WAITS}exit 5", script="touch seen")
    assert run.process.returncode == 5


def test_a_command_that_cannot_be_started_is_told_as_ever(tmp_path: Path) -> None:
    run = _run(tmp_path, f"rm -f ../../x; exec {shlex.quote(str(tmp_path / 'missing'))}")
    assert run.process.returncode == 127


def test_the_command_ends_with_the_supervisor(tmp_path: Path) -> None:
    command = "echo $$ > pid; kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 1000"
    assert _run(tmp_path, command).process.returncode == -9
    pid = int((tmp_path / "work" / "pid").read_text())
    until(lambda: not is_running(pid))
