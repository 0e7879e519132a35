"""When and how the completion policies of the task roles decide a job, and which task failed first. Pure.

As FrameworkController does: a role with `minFailedInstances` failed tasks fails the job; one with
`minSucceededInstances` succeeded tasks completes it; -1 turns either off; and a job all of whose tasks are
completed without either has succeeded.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, get_args

from pai_runtime.job.model import TaskRole
from pai_runtime.plan.environment import TaskName
from pai_task.record import record, replace
from pai_task.vocabulary import FailedOutcome


@record(frozen=True)
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


def first_failure(
    records: Mapping[TaskName, Mapping[str, Any]], reported: TaskName, clocks: float = 0.0
) -> TaskName:
    """Return the first of several failed tasks, by the exit records of these; else `reported`.

    `clocks` is by how many seconds the clocks of the tasks' machines may differ.

    What a record says decides before the clock: a task that failed because of a peer, was told to end or
    failed in talking to others comes after one that has a cause of its own. That one may have ended later, as
    its exit callbacks still ran, or by a clock of its own. Among equals, a cause that is known comes before a
    failure that nothing explains, of the same time as far as the clocks tell.
    """
    failed = {
        name: record for name, record in records.items() if record.get("outcome") in get_args(FailedOutcome)
    }
    if not failed:
        return reported
    least = min(map(_consequence, failed.values()))
    times = {name: decided_at(record) for name, record in failed.items() if _consequence(record) == least}
    about = min(times.values()) + clocks
    return min(
        times,
        key=lambda name: (
            times[name] > about,
            "phrase" not in failed[name],
            times[name],
            str(failed[name].get("decidedAt")),
        ),
    )


_NETWORK, _OTHER_TASKS = 239, 237
_ENDED_BY_OTHERS = (130, 141, 143)
"""Exit codes: by rules about networks, by rules about other tasks; of SIGINT, SIGPIPE and SIGTERM."""


def _consequence(record: Mapping[str, Any]) -> int:
    """Return how much a failed task's record looks like the consequence of another failure; 0: not at all."""
    code = record.get("exitCode")
    signs = (
        code == _NETWORK,
        code == _OTHER_TASKS,
        code in _ENDED_BY_OTHERS,
        bool(record.get("becauseOfPeer")),
    )
    return max((weight for weight, sign in enumerate(signs, 1) if sign), default=0)


def decided_at(record: Mapping[str, Any]) -> float:
    """Return when an exit record was decided, in seconds since 1970; infinity if it does not say."""
    try:
        return datetime.fromisoformat(str(record.get("decidedAt")).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return math.inf
