"""What a fault of the supervisor itself leaves: the result that was decided, or else the phase that was."""

from dataclasses import replace
from pathlib import Path

import pytest

from pai_task.exit_codes import CALLBACK_FAILED, RUNTIME_ERROR
from pai_task.vocabulary import Event
from tests import faulty_supervisor
from tests.task_harness import plan, run_task, shell

pytestmark = pytest.mark.process

EVENTS: list[Event] = ["taskStarts", "taskSucceeds", "taskFails", "taskExits"]


@pytest.mark.parametrize(
    ("phase", "command", "outcome", "code", "user_code", "phase_then"),
    [
        ("taskStarts", "true", "setup-failed", RUNTIME_ERROR, None, "taskStarts"),
        ("command", "true", "failed", RUNTIME_ERROR, None, "command"),
        ("taskSucceeds", "true", "ok", 0, 0, "command"),
        ("taskExits", "true", "ok", 0, 0, "command"),
        ("taskFails", "exit 7", "failed", 7, 7, "command"),
        ("taskExits", "kill -9 $$", "failed", 137, 137, "command"),
    ],
)
def test_a_fault_of_the_supervisor_changes_no_result_and_is_said_to_be_where_it_was(
    tmp_path: Path, phase: str, command: str, outcome: str, code: int, user_code: int | None, phase_then: str
) -> None:
    made = plan(tmp_path, command, [shell(event, 0, "true") for event in EVENTS])
    run = run_task(made, module=faulty_supervisor.__name__, env={"FAULT_IN": phase})
    assert run.process.returncode == run.record["exitCode"] == code
    assert (run.record["outcome"], run.record["originUserExitCode"]) == (outcome, user_code)
    assert run.record["phase"] == phase_then
    assert "OverflowError" in run.record["message"]
    assert run.record.get("callbackFailureCount", 0) == (0 if user_code is None else 1)


def test_with_strict_callbacks_a_fault_in_one_fails_a_task_that_succeeded(tmp_path: Path) -> None:
    made = replace(plan(tmp_path, steps=[shell("taskExits", 0, "true")]), strict_callbacks=True)
    run = run_task(made, module=faulty_supervisor.__name__, env={"FAULT_IN": "taskExits"})
    assert run.process.returncode == CALLBACK_FAILED
    assert (run.record["outcome"], run.record["originUserExitCode"]) == ("failed", 0)
