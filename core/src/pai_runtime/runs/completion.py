"""When and how the completion policies of the task roles decide a job, and which task failed first. Pure.

As FrameworkController does: a role with `minFailedInstances` failed tasks fails the job; one with
`minSucceededInstances` succeeded tasks completes it; -1 turns either off; and a job all of whose tasks are
completed without either has succeeded.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pai_runtime.job.model import TaskRole
from pai_runtime.plan.environment import TaskName
from pai_runtime.task.record import replace
from pai_runtime.task.vocabulary import FailedOutcome


@dataclass(frozen=True)
class Decision:
    """The decision about a job: its exit code, and the task that failed it, if one did."""

    code: int
    failed_task: tuple[str, int] | None = None


def roles_of(roles: Mapping[str, TaskRole], tasks: Iterable[tuple[str, int]]) -> dict[str, TaskRole]:
    """Return the roles reduced to these tasks, so that no completion policy waits for others."""
    counts = Counter(role for role, _ in tasks)
    return {name: _reduced(roles[name], count) for name, count in counts.items()}


def _reduced(role: TaskRole, count: int) -> TaskRole:
    if count == role.instances:
        return role
    failed, succeeded = (each and min(each, count) for each in (role.min_failed, role.min_succeeded))
    return replace(role, instances=count, min_failed=failed, min_succeeded=succeeded)


def decision(roles: Mapping[str, TaskRole], ended: Mapping[tuple[str, int], int]) -> Decision | None:
    """Return what the tasks that have ended decide about the job; None if nothing yet.

    `ended` maps tasks to exit codes, in the order in which they ended.
    """
    failed = dict.fromkeys(roles, 0)
    succeeded = dict.fromkeys(roles, 0)
    for (name, index), code in ended.items():
        role = roles[name]
        if code:
            failed[name] += 1
            if failed[name] == role.fails_at:
                return Decision(code, (name, index))
        else:
            succeeded[name] += 1
            if succeeded[name] == role.completes_at:
                return Decision(0)
    return Decision(0) if len(ended) == sum(role.instances for role in roles.values()) else None


def first_failure(records: Mapping[TaskName, Mapping[str, Any]], reported: TaskName) -> TaskName:
    """Return the first of several failed tasks, by the exit records of those that ended badly; else
    `reported`.

    One that failed because of a peer comes after all that did not, whatever the clock says: it may have ended
    sooner than the one whose exit callbacks still ran.
    """
    failed = {
        name: record for name, record in records.items() if record.get("outcome") in get_args(FailedOutcome)
    }
    return min(
        failed,
        key=lambda name: (bool(failed[name].get("becauseOfPeer")), str(failed[name].get("decidedAt"))),
        default=reported,
    )
