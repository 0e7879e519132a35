"""The placement of a job's tasks as a pod is told, in which its plan is made."""

from __future__ import annotations

import os
import socket
from itertools import count

from pai_pod.framework import BadFramework, is_address
from pai_pod.peers import FILE
from pai_pod.port_spec import END, FIRST, hashed_port
from pai_runtime.document.problems import listed, unexpected
from pai_runtime.job.ports import port_counts, task_ports
from pai_runtime.plan.environment import Placement, TaskPlace
from pai_runtime.task.names import framework_name
from pai_runtime.task.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pai_pod.framework import Framework, FrameworkRole, FrameworkTask
    from pai_pod.peers import Peers
    from pai_runtime.job.model import Job, TaskRole
    from pai_runtime.plan.environment import TaskName
    from pai_runtime.task.plan import Variable

_ROLE = ("FC_TASKROLE_NAME", "PAI_CURRENT_TASK_ROLE_NAME")
_INDEX = ("FC_TASK_INDEX", "PAI_TASK_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX")
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses for documentation (RFC 5737, RFC 3849), which the default route serves."""


class UnknownTask(ValueError):
    """The exception for an environment that does not say correctly which task of the job the pod is."""


def own_task(job: Job, environment: Mapping[str, str]) -> TaskName:
    """Return the task that this pod is, by its environment. Raises `UnknownTask`.

    Nothing needs to be said about a job with one role, or a role with one task.
    """
    name, told = _told(environment, _ROLE)
    found = [role for role in job.roles if not told or told in (role, framework_name(role))]
    if len(found) != 1:
        roles = f"a task role of the job ({listed(list(job.roles))})"
        raise UnknownTask(f"{name}: {unexpected(roles, ascii(told) if told else 'nothing')}")
    instances = job.roles[found[0]].instances
    name, told = _told(environment, _INDEX)
    if not told and instances == 1:
        return found[0], 0
    if not (told.isascii() and told.isdigit()) or len(told) > len(str(instances)) or int(told) >= instances:
        below = f"the index of a task, below {instances}"
        raise UnknownTask(f"{name}: {unexpected(below, ascii(told) if told else 'nothing')}")
    return found[0], int(told)


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
    own = own_task(job, environment)
    places = {}
    for role, of_framework in _pairs(framework, job):
        for index, task in enumerate(of_framework.tasks):
            name = role.name, index
            known = _own(task, environment) if name == own else task
            ports = of_framework.ports.ports(index, known.pod_uid)
            if name == own and len(ports) < len(of_framework.ports.labels):
                raise UnknownTask("FC_POD_UID: expected the UID of this pod, found nothing")
            places[name] = TaskPlace(known.host, ports, folder)
    return replace(_placement(environment, places), listed_codes=listed_codes)


def single_placement(job: Job, environment: Mapping[str, str], folder: str) -> Placement:
    """Return the placement of a job's only task in a pod without FrameworkController. Raises `UnknownTask`.

    Ports that the job does not name are consecutive, from one in the platform's range that depends on the
    pod's name: the same pod has the same ones, and pods in one host network seldom do.
    """
    tasks = sum(role.instances for role in job.roles.values())
    if tasks != 1:
        expected = f"a Framework for the {tasks} tasks of the job, or a job of one task"
        raise UnknownTask(f"FC_FRAMEWORK_NAME: {unexpected(expected, 'nothing')}")
    own = own_task(job, environment)
    role = job.roles[own[0]]
    pod = environment.get("POD_NAME") or os.uname().nodename
    start = hashed_port(pod, "", 0, FIRST, END - sum(port_counts(role).values()))
    ports = task_ports(job, role, 0, iter(range(start, END)))
    place = TaskPlace(_pod_address(environment), ports, folder)
    return replace(_placement(environment, {own: place}), optional_storages=True)


def peer_names(job: Job, peers: Peers) -> dict[TaskName, str]:
    """Return the host names of all tasks. Raises `UnknownTask` for a task role without one."""
    if unknown := [role for role in job.roles if role not in peers.hosts]:
        expected = f"the task roles of the job, with {listed(unknown)}"
        raise UnknownTask(f"{FILE}: hosts: {unexpected(expected, listed(list(peers.hosts)))}")
    return {
        (role.name, index): peers.host(role.name, index)
        for role in job.roles.values()
        for index in range(role.instances)
    }


def peers_placement(
    job: Job,
    peers: Peers,
    addresses: Mapping[TaskName, str],
    folder: str,
    variables: Mapping[TaskName, tuple[Variable, ...]] | None = None,
) -> Placement:
    """Return the placement of all tasks of a run whose pods each have a network of their own.

    Nobody schedules their ports: in each pod, those that the job does not name are consecutive, from the
    first one of the platform's range. A host is the address of the task, or its name if that is not known.
    `variables` are those of the attempts of tasks. Raises as `peer_names`.
    """
    places = {}
    for name, host in peer_names(job, peers).items():
        role = job.roles[name[0]]
        ports = task_ports(job, role, name[1], count(FIRST))
        places[name] = TaskPlace(addresses.get(name) or host, ports, folder, (variables or {}).get(name, ()))
    return Placement(peers.framework, peers.user, places)


def _placement(environment: Mapping[str, str], places: Mapping[TaskName, TaskPlace]) -> Placement:
    framework, user = environment.get("PAI_FRAMEWORK_NAME", ""), environment.get("PAI_USER_NAME", "")
    return Placement(framework, user, places, told_by_platform=True)


def _told(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """Return the first variable that is set, and its value; else the first one, and an empty value."""
    name = next((name for name in names if environment.get(name)), names[0])
    return name, environment.get(name, "")


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
    return replace(task, host=_pod_address(environment), pod_uid=uid)


def _pod_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of this pod, from the environment or the route to others; nothing is sent."""
    told = environment.get("POD_IP", "")
    if is_address(told):
        return told
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                address: str = probe.getsockname()[0]
        except OSError:
            continue
        return address
    return None
