"""A check of commands for variables about tasks and ports that the job does not have."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pai_document.amounts import counted
from pai_document.problems import Problem, Problems, field_name, listed
from pai_document.value import is_commands, walk
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.ports import port_counts
from pai_task.names import framework_name
from pai_task.record import record, replace

_VARIABLE: Final = re.compile(r"\$(?:\{(PAI_\w+)\}|(PAI_\w+))", re.ASCII)
"""A variable without a default: ``${PAI_X:-none}`` may well be unset."""

_INDEX: Final = re.compile(r"_(\d{1,9})(?=_|$)", re.ASCII)

_OF_ROLES: Final = (
    ("PAI_TASK_ROLE_", "_HOST_LIST"),
    ("PAI_TASK_ROLE_TASK_COUNT_", ""),
    ("PAI_RESOURCE_", ""),
    ("PAI_MIN_FAILED_TASK_COUNT_", ""),
    ("PAI_MIN_SUCCEEDED_TASK_COUNT_", ""),
)
_OF_TASKS: Final = (("PAI_HOST_IP_", ""),)
_OF_PORTS: Final = (("PAI_PORT_LIST_", ""), ("PAI_", "_PORT"))
"""What is before and after the name of a role; of a role and an index; of these and a label."""


@record(frozen=True)
class _Reading:
    """What the name of a variable may mean. `index` and `label` are empty where it has none."""

    before: str
    role: str
    index: str
    label: str
    after: str

    def __str__(self) -> str:
        return f"${self.before}{'_'.join(filter(None, (self.role, self.index, self.label)))}{self.after}"

    def is_there(self, role: TaskRole | None) -> bool:
        """Return whether tasks of the job have it; `role` is the one that it names."""
        return (
            role is not None
            and int(self.index or 0) < role.instances
            and (not self.label or self.label in port_counts(role))
        )


def warn_of_unknown_tasks(job: Job, problems: Problems) -> None:
    """Warn of variables in commands about a task, or a port of one, that the job does not have; once each."""
    roles = {name: role for role in job.roles.values() for name in (framework_name(role.name), role.name)}
    seen: set[str] = set()
    for path, node in walk(job.value.node):
        if len(path) < 2 or not is_commands(path[-2]):  # noqa: PLR2004 - a command is in a list
            continue
        for found in _VARIABLE.finditer(node.source.text, node.start, node.end):
            variable = found[1] or found[2]
            if variable not in seen and (fault := _fault(variable, roles, problems)):
                code, message, meant = fault
                where, name = node.source.position(found.start()), f"${variable}"
                message = f"{name} is not set: {message}"
                problems.add(Problem(code, message, where, field_name(path), name, None, meant, "warning"))
            seen.add(variable)


def _fault(
    variable: str, roles: Mapping[str, TaskRole], problems: Problems
) -> tuple[str, str, str | None] | None:
    """Return the code, message and suggestion for a variable that no task is given; None for any other."""
    readings = list(_readings(variable))
    if not readings or any(each.is_there(roles.get(each.role)) for each in readings):
        return None
    reading = next((each for each in readings if each.role in roles), readings[0])
    role = roles.get(reading.role)
    near = problems.suggestions.near_miss
    if role is None:
        known = listed(list(dict.fromkeys(each.name for each in roles.values())))
        meant = near(reading.role, roles)
        message = f"no task role is named '{reading.role}'; known: {known}"
        return "no-such-task-role", message, meant and str(replace(reading, role=meant))
    if int(reading.index or 0) >= role.instances:
        tasks = counted(role.instances, "task", "tasks")
        return "no-such-task", f"'{role.name}' has {tasks}, counted from 0", None
    labels = port_counts(role)
    meant = near(reading.label, labels)
    message = f"no port of '{role.name}' is named '{reading.label}'; known: {listed(list(labels))}"
    return "no-such-port", message, meant and str(replace(reading, label=meant))


def _readings(variable: str) -> Iterator[_Reading]:
    """Yield what a variable may mean: names of roles and labels, too, may have underscores and digits."""
    for before, after in _OF_ROLES:
        if role := _inner(variable, before, after):
            yield _Reading(before, role, "", "", after)
    for before, after in (*_OF_TASKS, *_OF_PORTS):
        inner = _inner(variable, before, after)
        for index in _INDEX.finditer(inner):
            role, label = inner[: index.start()], inner[index.end() + 1 :]
            if role and bool(label) == ((before, after) in _OF_PORTS):
                yield _Reading(before, role, index[1], label, after)


def _inner(variable: str, before: str, after: str) -> str:
    """Return what is between a beginning and an end; empty if the variable has not both."""
    is_whole = variable.startswith(before) and variable.endswith(after)
    return variable[len(before) : len(variable) - len(after)] if is_whole else ""
