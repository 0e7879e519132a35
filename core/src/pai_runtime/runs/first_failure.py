"""The choice of the task that failed first among several; the others may have failed because of it."""

from collections.abc import Mapping
from typing import Any, get_args

from pai_runtime.plan.environment import TaskName
from pai_runtime.task.vocabulary import FailedOutcome


def first_failure(records: Mapping[TaskName, Mapping[str, Any]], reported: TaskName) -> TaskName:
    """Return the failed task that failed first, by the exit records; `reported` if they do not tell.

    A task that failed because of a peer comes after all that did not, whatever the clock says: it may have
    ended sooner than one whose exit callbacks were still running.
    """
    failed = {
        name: record for name, record in records.items() if record.get("outcome") in get_args(FailedOutcome)
    }
    return min(
        failed,
        key=lambda name: (bool(failed[name].get("becauseOfPeer")), str(failed[name].get("decidedAt"))),
        default=reported,
    )
