"""The placement of all tasks of a job on this machine."""

from pathlib import Path

from pai_runtime.engines.local.ports import FIRST
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement, TaskPlace, port_counts

LOCALHOST = "127.0.0.1"


def placement(job: Job, framework: str, user: str, folder: Path, ports: list[int]) -> Placement:
    """All tasks on this machine, with `ports` given out in order."""
    left = iter(ports)
    places = {}
    for role in job.roles.values():
        for index in range(role.instances):
            own = {
                label: tuple(next(left) for _ in range(count)) for label, count in port_counts(role).items()
            }
            places[role.name, index] = TaskPlace(LOCALHOST, own, str(folder / role.name / str(index)))
    return Placement(framework, user, places)


def ports_needed(job: Job) -> int:
    """How many ports all tasks together have."""
    return sum(sum(port_counts(role).values()) * role.instances for role in job.roles.values())


def example_placement(job: Job, user: str) -> Placement:
    """A placement to look at a plan in: the same each time, and no port of it is looked for or held."""
    return placement(
        job, job.name, user, Path("/usr/local/pai"), list(range(FIRST, FIRST + ports_needed(job)))
    )
