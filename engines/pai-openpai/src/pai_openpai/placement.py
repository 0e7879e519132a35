"""The placement of a job's tasks as its Framework says it, in which the plan of one is made."""

from __future__ import annotations

from pai_document.problems import listed, unexpected
from pai_openpai.framework import BadFramework
from pai_pod.addresses import pod_address
from pai_pod.placement import INDEX, ROLE, UnknownTask, own_task, told_placement
from pai_runtime.plan.environment import TaskPlace
from pai_task.names import framework_name
from pai_task.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pai_openpai.framework import Framework, FrameworkRole, FrameworkTask
    from pai_runtime.job.model import Job, TaskRole
    from pai_runtime.plan.environment import Placement, TaskName


def framework_task(job: Job, environment: Mapping[str, str]) -> TaskName:
    """Return the task that this pod is, as FrameworkController says it. Raises `UnknownTask`."""
    return own_task(job, environment, ("FC_TASKROLE_NAME", *ROLE), ("FC_TASK_INDEX", *INDEX))


def framework_placement(
    framework: Framework,
    job: Job,
    environment: Mapping[str, str],
    folder: str,
    listed_codes: tuple[int, ...] | None = None,
) -> Placement:
    """Return the placement of all tasks for which FrameworkController has made pods. Raises `UnknownTask`.

    Unknown values of other tasks are left out; a pod knows its own UID and address. Raises `BadFramework` if
    the object is not one of this job.
    """
    own = framework_task(job, environment)
    places = {}
    for role, of_framework in _pairs(framework, job):
        for index, task in enumerate(of_framework.tasks):
            name = role.name, index
            known = _own(task, environment) if name == own else task
            ports = of_framework.ports.ports(index, known.pod_uid)
            if name == own and len(ports) < len(of_framework.ports.labels):
                raise UnknownTask("FC_POD_UID: expected the UID of this pod, found nothing")
            places[name] = TaskPlace(known.host, ports, folder)
    return replace(told_placement(environment, places), listed_codes=listed_codes)


def _pairs(framework: Framework, job: Job) -> Iterator[tuple[TaskRole, FrameworkRole]]:
    """Yield each role of the job with its counterpart in the Framework. Raises `BadFramework`."""
    found = {role.name: (number, role) for number, role in enumerate(framework.roles)}
    for role in job.roles.values():
        name = framework_name(role.name)
        if name not in found:
            raise BadFramework(f"spec.taskRoles: expected one named '{name}' for the job's '{role.name}'")
        number, of_framework = found.pop(name)
        tasks = len(of_framework.tasks)
        if tasks != role.instances:
            instances = f"{role.instances}, the instances of the job's '{role.name}'"
            raise BadFramework(f"spec.taskRoles[{number}].taskNumber: {unexpected(instances, str(tasks))}")
        yield role, of_framework
    for name, (number, _) in found.items():
        expected = f"the name of a task role of the job ({listed(list(job.roles))})"
        raise BadFramework(f"spec.taskRoles[{number}].name: {unexpected(expected, repr(name))}")


def _own(task: FrameworkTask, environment: Mapping[str, str]) -> FrameworkTask:
    """Return this pod's task, of which the Framework may not know yet, or know only an earlier pod."""
    uid = environment.get("FC_POD_UID") or task.pod_uid
    if task.host is not None and task.pod_uid == uid:
        return task
    return replace(task, host=pod_address(environment), pod_uid=uid)
