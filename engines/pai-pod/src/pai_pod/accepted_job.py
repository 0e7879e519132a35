"""Tolerance for faults of a job that the platform has accepted and that do not concern one of its tasks.

The job may have queued for days, and OpenPAI's first runtime ran it. It looked at what the task itself uses;
the command, the resources and the retries are the platform's, which has given and checked them before.
"""

from collections.abc import Iterator

from pai_document.problems import Problem, Problems, errors
from pai_document.value import Value
from pai_runtime.host.host import Host
from pai_runtime.job.load import resolved
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.references import References
from pai_runtime.plan.planning import job_plugins, planned_roles
from pai_task.record import replace

_IGNORED = frozenset({"unknown-field", "no-such-task-role"})
"""Codes of problems without any effect."""

_ALWAYS = frozenset({"secrets-too-large"})
"""Codes of problems that concern every task."""

_NAMES = ("data", "script", "output", "prerequisites")
"""Fields of a task role that name what its tasks use."""


def tolerate_what_is_not_used(job: Job, role: TaskRole, host: Host, problems: Problems) -> None:
    """Turn errors into warnings that cannot affect the tasks of a role whose command is given."""
    met = {(each.code, each.position, each.field) for each in _met(job, role, host, problems)}
    used = {(value.node.source.file, value.field) for value in _used(job, role)}

    def is_harmless(problem: Problem) -> bool:
        if problem.code in _ALWAYS:
            return False
        if problem.code in _IGNORED or _is_event(problem):
            return True
        if (problem.code, problem.position, problem.field) in met:
            return False
        file = problem.position.file if problem.position else ""
        return not any((file, above) in used for above in _above(problem.field))

    problems.tolerate(is_harmless, "it does not affect this task")


def _met(job: Job, role: TaskRole, host: Host, problems: Problems) -> tuple[Problem, ...]:
    """Return the errors found while planning a task that has only what this role uses."""
    found = Problems(problems.mask)
    alone = replace(job, roles={role.name: replace(role, commands=())}, deployments={})
    planned_roles(resolved(References(alone, found), job_plugins(host)), host, found)
    return errors(found.in_order)


def _used(job: Job, role: TaskRole) -> Iterator[Value]:
    """Yield the values of the job that say what the tasks of a role use."""
    yield from (job.prerequisites[key].value for key in job.used(role))
    yield from (each.value for each in job.extras if each.is_for(role.name))
    yield from job.storages
    yield from filter(None, (role.value.get(name) for name in _NAMES))


def _is_event(problem: Problem) -> bool:
    """Return whether a problem is a callback's event that never occurs."""
    above, _, name = problem.field.rpartition(".")
    return name == "event" and above.rpartition(".")[2].startswith("callbacks[")


def _above(field: str) -> Iterator[str]:
    """Yield a field and all fields that contain it."""
    yield field
    for index in range(len(field) - 1, 0, -1):
        if field[index] in ".[":
            yield field[:index]
