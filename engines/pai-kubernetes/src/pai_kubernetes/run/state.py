"""A run according to its JobSet, its pods, and the cluster's warnings. Pure.

Whatever is in these objects, texts come out printable and bounded, and no task too many.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pai_kubernetes.api.fields import (
    annotation,
    condition,
    holds,
    moment,
    name_of,
    seconds,
    shown,
    whole,
    words,
)
from pai_kubernetes.labels import APP, CANCELLED, FILE, JOB, USER
from pai_kubernetes.run.ends import End, end_of
from pai_kubernetes.run.indexes import ended_indexes
from pai_kubernetes.run.pods import TaskPod, addresses, container_status, latest_pods, task_pods
from pai_kubernetes.run.retrying import (
    is_followed,
    restarts_left,
    role_has_succeeded,
    role_is_over,
)
from pai_kubernetes.run.roles import Role, read_roles
from pai_kubernetes.run.waiting import Warnings, why_no_pod, why_pending, why_unknown
from pai_network.fields import mapping, string
from pai_runtime.engine import Run, RunTask, Unreadable
from pai_runtime.engine.records import RunOutcome, TaskName, TaskStatus, count_failed_callbacks, first_failure

ENGINE = "kubernetes"

_CLOCKS = 5.0
"""Maximum seconds by which the clocks of two nodes differ."""
_GONE = "the cluster has removed its pod, and its logs with it"

_Object = Mapping[str, Any]


@dataclass(frozen=True)
class _Objects:
    """What is known of a run, and its state as a whole."""

    jobset: _Object
    warnings: Warnings
    workload: _Object | None
    over: bool
    cancelled: bool
    all_have_addresses: bool
    restarts: int
    indexes: Mapping[tuple[str, int], bool]

    def is_done(self, role: Role) -> bool:
        """Return whether a role gets no more pods."""
        return self.over or self.cancelled or role_is_over(self.jobset, role.job)

    def is_put_back(self, end: End) -> bool:
        """Return whether a pod ended because a queue suspended the run, which its Job does not count."""
        return end.stopped and _is_suspended(self.jobset) and not (self.over or self.cancelled)


def readable(read: Callable[[], Run]) -> Run | Unreadable:
    """Return the run that `read` returns, or the reason of its `ValueError` as `Unreadable`."""
    try:
        return read()
    except ValueError as error:
        return Unreadable(str(error))


def run_of(
    jobset: _Object,
    pods: Iterable[_Object],
    events: Iterable[_Object] = (),
    workload: _Object | None = None,
    ended: Iterable[_Object] = (),
    *,
    jobs: Iterable[_Object] = (),
    gone: float | None = None,
) -> Run:
    """Return the run that its objects describe. Raises `ValueError` if the JobSet is not one of a run.

    `ended` are pods as they were last seen, `jobs` the Jobs as far as they were requested. `gone` is when the
    JobSet was seen to be deleted (seconds since 1970).
    """
    roles = read_roles(jobset)
    found = [*task_pods(roles, ended, gone=True), *task_pods(roles, pods)]
    latest = latest_pods(found)
    # The pods may be seen before the status of the JobSet that has made them.
    restarts = max([whole(jobset, "status", "restarts"), *(pod.of_job for pod in latest.values())])
    outcome, ended_at = _outcome(jobset, latest, gone)
    objects = _Objects(
        jobset,
        Warnings.of(events),
        workload,
        over=outcome is not None,
        cancelled=_cancelled_at(jobset) is not None or gone is not None,
        all_have_addresses=len(addresses(list(latest.values()))) == sum(role.instances for role in roles),
        restarts=restarts,
        indexes=ended_indexes(jobs),
    )
    tasks, ends = _tasks(objects, roles, latest)
    failed = _failed_task(tasks, ends) if outcome == "failed" else None
    if outcome == "failed" and (removed := _removed_before(objects, roles, tasks, ends)):
        failed = removed.name
        tasks = [removed if task.name == failed else task for task in tasks]
    return Run(
        job=shown(annotation(jobset, JOB) or name_of(jobset)),
        engine=ENGINE,
        file=shown(annotation(jobset, FILE)),
        started=moment(jobset, "metadata", "creationTimestamp") or 0.0,
        retries=restarts,
        tasks=tuple(tasks),
        ended=ended_at,
        outcome=outcome,
        failed_task=failed,
        stopping=objects.cancelled and outcome is None,
        queued=outcome is None and not objects.cancelled and _is_suspended(jobset),
        user=shown(annotation(jobset, USER)),
        note=_why_it_failed(jobset) if outcome == "failed" else "",
    )


def _tasks(
    objects: _Objects, roles: Iterable[Role], latest: Mapping[TaskName, TaskPod]
) -> tuple[list[RunTask], dict[TaskName, End]]:
    """Return all tasks, and the ends of those whose pods have not succeeded."""
    tasks: list[RunTask] = []
    ends: dict[TaskName, End] = {}
    for role in roles:
        for index in range(role.instances):
            pod = latest.get((role.name, index))
            if pod is not None and pod.of_job < objects.restarts and not objects.over:
                pod = None  # of an attempt of the job that has ended
            end = end_of(pod.document) if pod is not None else None
            if end is not None and objects.is_put_back(end):
                pod = end = None
            if end is not None and end.failed:
                ends[role.name, index] = end
            tasks.append(_task(objects, role, index, pod, end))
    return tasks, ends


def _why_it_failed(jobset: _Object) -> str:
    """Return the JobSet's message about its failure; empty if it has not failed."""
    return words(condition(jobset, "Failed"), "message") if holds(jobset, "Failed") else ""


def _cancelled_at(jobset: _Object) -> float | None:
    return seconds(annotation(jobset, CANCELLED))


def _outcome(
    jobset: _Object, latest: Mapping[TaskName, TaskPod], gone: float | None
) -> tuple[RunOutcome | None, float | None]:
    """Return the outcome of the run and its time; None if it has not ended."""
    cancelled = _cancelled_at(jobset)
    if holds(jobset, "Completed"):
        return "succeeded", _since(jobset, "Completed")
    if holds(jobset, "Failed"):
        at = _since(jobset, "Failed")
        return ("cancelled" if cancelled is not None and cancelled <= at else "failed"), at
    if gone is not None:
        return "cancelled", gone
    if cancelled is None or not _is_suspended(jobset):
        return None, None
    ends = [end_of(pod.document) for pod in latest.values() if not pod.is_gone]
    if None in ends:
        return None, None
    return "cancelled", max([cancelled, *(end.ended for end in ends if end)])


def _is_suspended(jobset: _Object) -> bool:
    return mapping(jobset, "spec").get("suspend") is True


def _since(jobset: _Object, kind: str) -> float:
    changed = moment(condition(jobset, kind), "lastTransitionTime")
    return changed or moment(jobset, "metadata", "creationTimestamp") or 0.0


def _task(objects: _Objects, role: Role, index: int, pod: TaskPod | None, end: End | None) -> RunTask:
    if end is not None and pod is not None:
        return _ended(objects, role, pod, end)
    base = RunTask(role.name, index, "waiting", None, pod.attempt if pod else objects.restarts, None, None)
    if pod is None or pod.is_gone or objects.over:
        return _without_pod(objects, role, base, pod)
    node = shown(string(pod.document, "spec", "nodeName"))
    if running := mapping(container_status(pod.document, APP), "running"):
        note = why_unknown(pod.document)
        return replace(base, state="running", started=moment(running, "startedAt"), node=node, note=note)
    note = why_pending(pod.document, objects.warnings, alone=not objects.all_have_addresses)
    return replace(base, node=node, note=note)


def _without_pod(objects: _Objects, role: Role, base: RunTask, pod: TaskPod | None) -> RunTask:
    by_job = objects.indexes.get((role.job, base.index))
    if by_job is not None:
        state: TaskStatus = "succeeded" if by_job else "failed"
        return replace(base, state=state, exit_code=0 if by_job else None, note=_GONE)
    if objects.over or role_is_over(objects.jobset, role.job):
        return replace(base, state="stopped", note=_GONE if pod is None or pod.is_gone else "")
    if objects.cancelled:
        return base
    job = f"{name_of(objects.jobset)}-{role.job}-0"
    return replace(base, note=why_no_pod(objects.jobset, job, objects.warnings, objects.workload))


def _ended(objects: _Objects, role: Role, pod: TaskPod, end: End) -> RunTask:
    task = RunTask(
        role=role.name,
        index=pod.task[1],
        state="failed" if end.failed else "succeeded",
        exit_code=end.code,
        retries=pod.attempt,
        started=end.started,
        ended=end.ended,
        failed_callbacks=count_failed_callbacks(end.record),
        node=shown(string(pod.document, "spec", "nodeName")),
        note=end.removal,
    )
    if not end.failed:
        return task
    is_done = objects.is_done(role)
    if is_done and (end.stopped or (end.disrupted and end.container != APP)):
        return replace(task, state="stopped", note="")
    followed = is_followed(objects.jobset, role.job, pod, end)
    if followed == "again" and not is_done:
        why = end.removal or f"failed with exit code {end.code}"
        waits = f"{why}; will be started again"
        return replace(task, state="waiting", exit_code=None, started=None, ended=None, note=waits)
    permanent = end.record.get("behavior") == "PERMANENT" and objects.over and restarts_left(objects.jobset)
    return replace(task, not_retried=followed == "permanent" or permanent)


def _removed_before(
    objects: _Objects, roles: Iterable[Role], tasks: Iterable[RunTask], ends: Mapping[TaskName, End]
) -> RunTask | None:
    """Return the task that failed the run because its pod was removed, before anything else failed; or None.

    Controllers delete pods only after the failure that makes them do so. `failedIndexes` has the task too,
    unless its Job failed by a rule for disruptions; and it may have those that were stopped.
    """
    over = {role.name for role in roles if role_has_succeeded(objects.jobset, role.job)}
    jobs = {role.name: role.job for role in roles}
    stopped = [task for task in tasks if task.state == "stopped" and task.role not in over]
    told = {task: end.told for task in stopped if (end := ends.get((task.role, task.index))) and end.told}
    counted = {
        task: at for task, at in told.items() if objects.indexes.get((jobs[task.role], task.index)) is False
    }
    first = min((counted or told).items(), key=lambda each: each[1], default=None)
    failed = [task.ended for task in tasks if task.state == "failed" and task.ended]
    if first is None or min(failed, default=first[1] + 1) <= first[1]:
        return None
    end = ends[first[0].role, first[0].index]
    return replace(first[0], state="failed", note=end.removal)


def _failed_task(tasks: Iterable[RunTask], ends: Mapping[TaskName, End]) -> str | None:
    """Return the name of the failed task that failed first; None if none has failed."""
    failed = [task for task in tasks if task.state == "failed"]
    if not failed:
        return None
    records = {(task.role, task.index): ends[task.role, task.index].record for task in failed if task.ended}
    first = min(failed, key=lambda task: task.ended or float("inf"))
    role, index = first_failure(records, (first.role, first.index), _CLOCKS)
    return f"{role}/{index}"
