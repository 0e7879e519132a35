"""The placement of all tasks of a job on this machine."""

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType

from pai_runtime.engines.local.ports import FIRST
from pai_runtime.job.model import Job
from pai_runtime.job.ports import fixed_ports, port_counts, task_ports
from pai_runtime.plan.environment import Placement, TaskName, TaskPlace
from pai_task.paths import VOLUME

LOCALHOST = "127.0.0.1"


def placement(
    job: Job,
    framework: str,
    user: str,
    folder: Path,
    ports: Iterable[int],
    devices: Mapping[TaskName, Mapping[str, str]] = MappingProxyType({}),
    only: TaskName | None = None,
) -> Placement:
    """Return the placement of all tasks on this machine; `ports` are used where the job names none.

    `devices` has the variables that tell a task which of the machine's devices it sees. With `only` one task
    placed here, no other one has ports but those that the job names.
    """
    left = iter(ports)
    places = {}
    for role in job.roles.values():
        for index in range(role.instances):
            name = role.name, index
            if only in (None, name):
                own = task_ports(job, role, index, left)
            else:
                own = {label: tuple(named) for label, named in fixed_ports(job, role, index).items()}
            where = str(folder / role.name / str(index))
            places[name] = TaskPlace(LOCALHOST, own, where, devices=devices.get(name, {}))
    return Placement(framework, user, places)


def named_ports(job: Job, only: TaskName | None = None) -> dict[int, str]:
    """Return the ports that the job names, each with the name of its field; no other task may have them.

    With `only`, those of one task.
    """
    return {
        port: f"extras.firstPorts.{role.name}.{label}"
        for role in (job.roles.values() if job.first_ports else ())
        for index in range(role.instances)
        if only in (None, (role.name, index))
        for label, ports in fixed_ports(job, role, index).items()
        for port in ports
    }


def ports_needed(job: Job, only: TaskName | None = None) -> int:
    """Return how many ports all tasks, or `only` one, need that the job does not name."""
    counts = {role.name: sum(port_counts(role).values()) for role in job.roles.values()}
    if only is not None:
        needed = counts[only[0]]
    else:
        needed = sum(counts[role.name] * role.instances for role in job.roles.values())
    return needed - len(named_ports(job, only))


def example_placement(job: Job, user: str) -> Placement:
    """Return a deterministic placement for looking at plans; its ports are neither probed nor reserved."""
    named = named_ports(job)
    return placement(job, job.name, user, Path(VOLUME), (port for port in count(FIRST) if port not in named))
