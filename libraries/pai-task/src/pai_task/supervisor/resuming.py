"""Resumption of a task whose init steps ran in an earlier process, for example in another container."""

from __future__ import annotations

from pai_task.events import read_events
from pai_task.exit_codes import MOST_CODE, SETUP_FAILED
from pai_task.outcome import Result
from pai_task.plan import PlanError
from pai_task.supervisor.lifecycle import SetUp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pai_task.supervisor.task import Task

FAILURES = ("cancelled", "failed", "setup-failed", "timeout")
"""All outcomes but ``ok``; importing them from `vocabulary` would take as long as reading a plan."""


def init_before(task: Task) -> SetUp:
    """Return the state of the setup after the init steps of an earlier process.

    Raises `PlanError` if none ran. It is read from the events of the last process that ran the init steps.
    """
    started: set[int] = set()
    result: Result | None = None
    has_begun = has_ended = has_succeeded = False
    for event in read_events(task.folder):
        kind = event["event"]
        if kind == "supervisorStarted" and event.get("phases") == "init":
            has_begun, has_ended, has_succeeded, result = True, False, False, None
            started.clear()
        elif kind == "stepStarted" and event.get("phase") == "init":
            use = _use_index(task, event)
            if use is not None:
                started.add(use)
        elif kind == "decided" and has_begun and not has_ended:
            result = _result(task, event)
        elif kind == "initEnded":
            has_ended, has_succeeded = True, event.get("exitCode") == 0
    if not has_begun and task.plan.steps_of("init"):
        raise PlanError("the init steps of this plan have not been run")
    if has_begun and not has_succeeded and result is None:  # the rest may be on a disk that was full
        message = "the init steps were killed before they had finished, or could not record how they ended"
        result = Result("setup-failed", SETUP_FAILED, "init", message=message)
    return SetUp(tuple(sorted(started)), result)


def _result(task: Task, event: Mapping[str, Any]) -> Result | None:
    """Return the failure that an event of an earlier supervisor recorded; None if the event is invalid."""
    outcome: Any = event.get("outcome")
    code, number = event.get("exitCode"), event.get("signal")
    if outcome not in FAILURES:
        return None
    if type(code) is not int or not 1 <= code <= MOST_CODE:
        return None
    use = _use_index(task, event)
    return Result(
        outcome,
        code,
        "init",
        signal=number if isinstance(number, int) else None,
        failed=task.plan.uses[use] if use is not None else None,
        message=str(event.get("message", "")),
        decided_at=float(event["time"]),
    )


def _use_index(task: Task, event: Mapping[str, Any]) -> int | None:
    use = event.get("useIndex")
    return use if isinstance(use, int) and 0 <= use < len(task.plan.uses) else None
