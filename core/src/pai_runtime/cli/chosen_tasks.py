"""The selection of tasks of a job on the command line."""

from collections.abc import Sequence

from pai_runtime.job.model import Job
from pai_runtime.plan.environment import TaskName


class NoSuchTask(Exception):
    """The exception for a task or task role that the job does not have."""


def chosen_tasks(job: Job, names: Sequence[tuple[str, int | None]]) -> list[TaskName]:
    """Return the tasks with these names, in the order of the job; an index None selects all tasks of a role.

    Raises `NoSuchTask`.
    """
    for role, index in names:
        if role not in job.roles:
            raise NoSuchTask(f"no task role is named '{role}'; known: {', '.join(job.roles)}")
        count = job.roles[role].instances
        if index is not None and index >= count:
            last = f" to {role}/{count - 1}" if count > 1 else ""
            raise NoSuchTask(f"no task is named '{role}/{index}'; known: {role}/0{last}")
    meant = set(names)
    return [name for name in job.tasks if not meant.isdisjoint({(name[0], None), name})]
