"""The placement of a job's tasks as a pod is told, in which its plan is made."""

from __future__ import annotations

import os
from itertools import count

from pai_document.problems import listed, unexpected
from pai_pod.addresses import pod_address
from pai_pod.peers import FILE
from pai_pod.ports import END, FIRST, hashed_port
from pai_runtime.job.ports import port_counts, task_ports
from pai_runtime.plan.environment import Placement, TaskPlace
from pai_task.names import framework_name
from pai_task.paths import VOLUME
from pai_task.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pai_pod.peers import Peers
    from pai_runtime.job.model import Job
    from pai_runtime.plan.environment import TaskName
    from pai_task.plan import Variable

ROLE = ("PAI_CURRENT_TASK_ROLE_NAME",)
INDEX = ("PAI_TASK_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX")
"""The variables that say which task a pod is; the first one that is set counts."""


class UnknownTask(ValueError):
    """The exception for an environment that does not say correctly which task of the job the pod is."""


def own_task(
    job: Job,
    environment: Mapping[str, str],
    role_variables: Sequence[str] = ROLE,
    index_variables: Sequence[str] = INDEX,
) -> TaskName:
    """Return the task that this pod is, by variables of its environment. Raises `UnknownTask`.

    Nothing needs to be said about a job with one role, or a role with one task.
    """
    name, told = _told(environment, role_variables)
    found = [role for role in job.roles if not told or told in (role, framework_name(role))]
    if len(found) != 1:
        roles = f"a task role of the job ({listed(list(job.roles))})"
        raise UnknownTask(f"{name}: {unexpected(roles, ascii(told) if told else 'nothing')}")
    instances = job.roles[found[0]].instances
    name, told = _told(environment, index_variables)
    if not told and instances == 1:
        return found[0], 0
    if not (told.isascii() and told.isdigit()) or len(told) > len(str(instances)) or int(told) >= instances:
        below = f"the index of a task, below {instances}"
        raise UnknownTask(f"{name}: {unexpected(below, ascii(told) if told else 'nothing')}")
    return found[0], int(told)


def single_placement(job: Job, environment: Mapping[str, str], folder: str) -> Placement:
    """Return the placement of a job's only task in a pod of which no platform knows. Raises `UnknownTask`.

    Ports that the job does not name are consecutive, from one in the platform's range that depends on the
    pod's name: the same pod has the same ones, and pods in one host network seldom do.
    """
    tasks = sum(role.instances for role in job.roles.values())
    if tasks != 1:
        expected = f"a Framework for the {tasks} tasks of the job, or a job of one task"
        raise UnknownTask(f"frameworkParser: {unexpected(expected, 'nothing')}")
    own = own_task(job, environment)
    role = job.roles[own[0]]
    pod = environment.get("POD_NAME") or os.uname().nodename
    start = hashed_port(pod, "", 0, FIRST, END - sum(port_counts(role).values()))
    ports = task_ports(job, role, 0, iter(range(start, END)))
    place = TaskPlace(pod_address(environment), ports, folder)
    return replace(told_placement(environment, {own: place}), optional_storages=True)


def peer_names(job: Job, peers: Peers) -> dict[TaskName, str]:
    """Return the host names of all tasks. Raises `UnknownTask` for a task role without one."""
    if unknown := [role for role in job.roles if role not in peers.hosts]:
        expected = f"the task roles of the job, with {listed(unknown)}"
        raise UnknownTask(f"{FILE}: hosts: {unexpected(expected, listed(list(peers.hosts)))}")
    return {name: peers.host(*name) for name in job.tasks}


def peers_placement(
    job: Job,
    peers: Peers,
    addresses: Mapping[TaskName, str] | None = None,
    folder: str = VOLUME,
    variables: Mapping[TaskName, tuple[Variable, ...]] | None = None,
) -> Placement:
    """Return the placement of all tasks of a run whose pods each have a network of their own.

    Nobody schedules their ports: in each pod, those that the job does not name are consecutive, from the
    first one of the platform's range. A host is the address of the task, or its name if that is not known.
    `variables` are those of the attempts of tasks. Raises as `peer_names`.
    """
    places, known = {}, addresses or {}
    for name, host in peer_names(job, peers).items():
        role = job.roles[name[0]]
        ports = task_ports(job, role, name[1], count(FIRST))
        places[name] = TaskPlace(known.get(name) or host, ports, folder, (variables or {}).get(name, ()))
    return Placement(peers.framework, peers.user, places)


def told_placement(environment: Mapping[str, str], places: Mapping[TaskName, TaskPlace]) -> Placement:
    """Return a placement in a pod whose environment says how the run and its user are called."""
    framework, user = environment.get("PAI_FRAMEWORK_NAME", ""), environment.get("PAI_USER_NAME", "")
    return Placement(framework, user, places, told_by_platform=True)


def _told(environment: Mapping[str, str], names: Sequence[str]) -> tuple[str, str]:
    """Return the first variable that is set, and its value; else the first one, and an empty value."""
    name = next((name for name in names if environment.get(name)), names[0])
    return name, environment.get(name, "")
