"""The pods of a run, with the task and attempt that each belongs to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pai_kubernetes.api.fields import annotation, label, moment, name_of, whole
from pai_kubernetes.labels import (
    APP,
    COMPLETION_INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED_FAILURES,
    JOBSET_NAME,
    REPLICATED_JOB,
    RESTART_ATTEMPT,
)
from pai_kubernetes.run.roles import Role
from pai_network.fields import mapping, mappings, string
from pai_runtime.engine.records import TaskName


@dataclass(frozen=True)
class TaskPod:
    """A pod of a task.

    `of_job` counts the restarts of the job before it, `attempt` all those of the task. `failures` counts the
    task's since the job was restarted. `is_gone` means that it is no longer on the cluster.
    """

    task: TaskName
    of_job: int
    failures: int
    attempt: int
    created: float
    document: Mapping[str, Any]
    is_gone: bool = False

    @property
    def name(self) -> str:
        """The name of the pod."""
        return name_of(self.document)

    @property
    def uid(self) -> str:
        """The UID of the pod, which distinguishes it from others of the same name."""
        return string(self.document, "metadata", "uid")

    def order(self) -> tuple[int, int, float]:
        """Return a sort key by which the latest pod of a task is the greatest."""
        return self.of_job, self.attempt, self.created


def of_run(name: str) -> str:
    """Return the selector of the Jobs and pods of a run.

    It uses the label that the controller of JobSets sets, whatever their templates contain: with any other
    one, people could pass off the pods of their own JobSet as those of another run.
    """
    return f"{JOBSET_NAME}={name}"


def task_pods(
    roles: Iterable[Role], pods: Iterable[Mapping[str, Any]], *, gone: bool = False
) -> list[TaskPod]:
    """Return the pods that are tasks of these roles."""
    by_job = {role.job: role for role in roles}
    return [found for pod in pods if (found := _task_pod(by_job, pod, gone=gone))]


def latest_pods(pods: Iterable[TaskPod]) -> dict[TaskName, TaskPod]:
    """Return the last pod of each task."""
    latest: dict[TaskName, TaskPod] = {}
    for pod in pods:
        if pod.task not in latest or pod.order() >= latest[pod.task].order():
            latest[pod.task] = pod
    return latest


def by_task(pods: Iterable[TaskPod]) -> dict[str, list[TaskPod]]:
    """Return the pods of each task, by names such as ``worker/0``, the last one last."""
    found: dict[str, list[TaskPod]] = {}
    for pod in sorted(pods, key=TaskPod.order):
        found.setdefault(f"{pod.task[0]}/{pod.task[1]}", []).append(pod)
    return found


def container_status(pod: Mapping[str, Any], name: str = APP) -> Mapping[str, Any]:
    """Return the ``state`` of a container; empty if unknown."""
    for kind in ("containerStatuses", "initContainerStatuses"):
        for status in mappings(pod, "status", kind):
            if status.get("name") == name:
                return mapping(status, "state")
    return {}


def has_started(pod: Mapping[str, Any], container: str) -> bool:
    """Return whether a container has started, so that it has a log."""
    state = container_status(pod, container)
    return "running" in state or "terminated" in state


def addresses(pods: Iterable[TaskPod]) -> dict[TaskName, str]:
    """Return the known addresses of tasks."""
    found = ((pod.task, string(pod.document, "status", "podIP")) for pod in latest_pods(pods).values())
    return {task: address for task, address in found if address}


def _task_pod(by_job: Mapping[str, Role], pod: Mapping[str, Any], *, gone: bool) -> TaskPod | None:
    role = by_job.get(label(pod, REPLICATED_JOB))
    index = annotation(pod, COMPLETION_INDEX) or label(pod, COMPLETION_INDEX)
    if role is None or not index.isascii() or not index.isdigit():
        return None
    number = whole({"index": index}, "index")
    if number >= role.instances:
        return None
    of_job = whole(pod, "metadata", "labels", RESTART_ATTEMPT)
    failures = whole(pod, "metadata", "annotations", INDEX_FAILURES)
    disruptions = whole(pod, "metadata", "annotations", INDEX_IGNORED_FAILURES)
    created = moment(pod, "metadata", "creationTimestamp") or 0.0
    attempt = of_job + failures + disruptions
    return TaskPod((role.name, number), of_job, failures, attempt, created, pod, gone)
