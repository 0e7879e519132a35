"""The shapes of a job's tasks, each of which is a component of the allocation. Pure."""

from collections.abc import Iterator

from pai_runtime.engine import Job, TaskRole
from pai_runtime.engine.classes import record
from pai_runtime.engine.records import TaskName


@record(frozen=True)
class Shape:
    """What each of some tasks gets: at least one CPU, memory in MB (0: the default), and GPUs."""

    cpu: int
    memory_mb: int
    gpu: int

    @property
    def memory_per_cpu(self) -> int:
        """The memory for each of its CPUs in MB, rounded up: Slurm has no other limit for a task."""
        return -(-self.memory_mb // self.cpu)


def shape_of(role: TaskRole) -> Shape:
    """Return the shape of the tasks of a role."""
    return Shape(max(role.cpu, 1), role.memory_mb, role.gpu)


def tasks_by_shape(job: Job) -> dict[Shape, list[TaskName]]:
    """Return the tasks of each distinct shape, in the order of the job."""
    found: dict[Shape, list[TaskName]] = {}
    for role in job.roles.values():
        found.setdefault(shape_of(role), []).extend(_tasks(role))
    return found


def is_array(job: Job) -> bool:
    """Return whether each task can be a job of its own, in an array: none of them waits for others."""
    shapes = tasks_by_shape(job)
    return not job.gang and not job.retries and len(shapes) == 1 and len(next(iter(shapes.values()))) > 1


def _tasks(role: TaskRole) -> Iterator[TaskName]:
    return ((role.name, index) for index in range(role.instances))
