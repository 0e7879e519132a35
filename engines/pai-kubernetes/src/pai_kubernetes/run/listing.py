"""A run according to its JobSet and Jobs alone, which is enough for a list. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pai_kubernetes.api.fields import label, whole
from pai_kubernetes.labels import REPLICATED_JOB
from pai_kubernetes.run.retrying import role_is_over
from pai_kubernetes.run.roles import Role, read_roles
from pai_kubernetes.run.state import run_of
from pai_network.fields import mapping
from pai_runtime.engine import Run, RunTask
from pai_runtime.engine.records import TaskStatus


def listed_run(jobset: Mapping[str, Any], jobs: Iterable[Mapping[str, Any]]) -> Run:
    """Return the run that its JobSet and Jobs describe. Raises `ValueError`.

    The number of running tasks of a role is right, but not which ones they are, nor which were retried.
    """
    by_role = {label(job, REPLICATED_JOB): job for job in jobs}
    run = run_of(jobset, (), jobs=by_role.values())
    is_cancelled = run.outcome == "cancelled"
    if is_cancelled and any(_active(job) for job in by_role.values()):
        run = replace(run, outcome=None, ended=None, stopping=True, queued=False)
    tasks: list[RunTask] = []
    for role in read_roles(jobset):
        own = [task for task in run.tasks if task.role == role.name]
        job = by_role.get(role.job, {})
        is_over = run.over or run.stopping or role_is_over(jobset, role.job)
        first, *others = _with_counts(own, role, job, is_over=run.over)
        again = _retries(own, job, is_over=is_over)
        tasks += [replace(first, retries=first.retries + again), *others]
    failed = next((task.name for task in tasks if task.state == "failed"), None)
    return replace(run, tasks=tuple(tasks), failed_task=failed if run.outcome == "failed" else None)


def _with_counts(
    tasks: list[RunTask], role: Role, job: Mapping[str, Any], *, is_over: bool
) -> Iterable[RunTask]:
    """Yield the tasks of a role; those that its Job only counts are represented by the first ones."""
    counted = {state: sum(task.state == state for task in tasks) for state in ("failed", "succeeded")}
    left: dict[TaskStatus, int] = {
        "failed": whole(job, "status", "failed") if not _lists_failures(job) and is_over else 0,
        "running": 0 if is_over else min(whole(job, "status", "ready"), role.instances),
    }
    left["failed"] = max(0, left["failed"] - counted["failed"])
    for task in tasks:
        state = next((state for state, count in left.items() if count), None)
        if task.state in ("waiting", "stopped") and state is not None:
            left[state] -= 1
            yield replace(task, state=state, note="")
        else:
            yield task


def _retries(tasks: list[RunTask], job: Mapping[str, Any], *, is_over: bool) -> int:
    """Return the minimum number of retries of a role's tasks; a finished Job also counts those it stopped."""
    ended = Counter(task.state for task in tasks)
    last = ended["failed"] + (len(tasks) - ended["failed"] - ended["succeeded"] if is_over else 0)
    most = whole(job, "spec", "backoffLimitPerIndex") * len(tasks)
    return max(0, min(whole(job, "status", "failed") - last, most))


def _lists_failures(job: Mapping[str, Any]) -> bool:
    return "failedIndexes" in mapping(job, "status")


def _active(job: Mapping[str, Any]) -> int:
    return whole(job, "status", "active") + whole(job, "status", "terminating")
