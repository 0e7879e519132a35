"""The ports of the tasks of a job: how many there are by label, and which of them the job fixes."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from pai_document.problems import Problem, Problems, listed
from pai_document.value import Value
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.reading import mapping, whole
from pai_task.record import record

LAST_PORT: Final = 65535


def port_counts(role: TaskRole) -> dict[str, int]:
    """Return the number of ports of a task by label: those of the role, and always ``ssh`` and ``http``."""
    return {**role.ports, **{label: 1 for label in ("ssh", "http") if label not in role.ports}}


def fixed_ports(job: Job, role: TaskRole, index: int) -> dict[str, range]:
    """Return the ports that ``extras.firstPorts`` fixes for a task, by label; other labels are left out."""
    if job.first_ports is None:
        return {}
    counts = port_counts(role)
    return {
        each.label: range(each.first, each.end)[counts[each.label] * index :][: counts[each.label]]
        for each in _ranges(job, role.name)
    }


def task_ports(job: Job, role: TaskRole, index: int, free: Iterator[int]) -> dict[str, tuple[int, ...]]:
    """Return all ports of a task by label: those that the job fixes, otherwise the next ones from `free`."""
    fixed = fixed_ports(job, role, index)
    named = {port for ports in fixed.values() for port in ports}
    others = (port for port in free if port not in named)
    return {
        label: tuple(fixed[label] if label in fixed else islice(others, count))
        for label, count in port_counts(role).items()
    }


def unnamed_port(job: Job, below: int) -> int | None:
    """Return the highest port below another one that no task has by `extras.firstPorts`."""
    named = [range(each.first, each.end) for role in job.roles for each in _ranges(job, role)]
    ports = reversed(range(1024, below))
    return next((port for port in ports if not any(port in each for each in named)), None)


def check_first_ports(job: Job, problems: Problems) -> None:
    """Report unknown roles and labels in ``extras.firstPorts``, ports above 65535, and overlapping ranges."""
    for named in job.first_ports.values() if job.first_ports else ():
        role = job.roles.get(str(named.key))
        if role is None:
            problems.add(_unknown(named, "task role", job.roles, problems))
            continue
        labels = port_counts(role)
        unknown = [label for label in named.values() if str(label.key) not in labels]
        problems.add(*(_unknown(label, f"port of '{role.name}'", labels, problems) for label in unknown))
    before: _Range | None = None
    for each in sorted((each for role in job.roles for each in _ranges(job, role)), key=_order):
        if each.end - 1 > LAST_PORT:
            found, expected = f"{each.first} to {each.end - 1}", f"ports up to {LAST_PORT}"
            message = f"expected {expected} for all tasks of the role, found {found}"
            problems.add(each.value.problem("port-range", message, found, expected))
        if before and each.first < before.end:
            message = f"the ports {each.first} to {each.end - 1} overlap with those of {before.value.field}"
            problems.add(
                each.value.problem("port-conflict", f"{message}, {before.first} to {before.end - 1}")
            )
        before = max(before or each, each, key=lambda one: one.end)


@record(frozen=True)
class _Range:
    """The range of ports of one label over all tasks of a role; `end` is exclusive."""

    label: str
    first: int
    end: int
    value: Value


def _order(each: _Range) -> tuple[int, int]:
    return each.first, each.end


def _ranges(job: Job, name: str) -> Iterator[_Range]:
    role, given = job.roles[name], mapping(job.first_ports, name)
    counts = port_counts(role)
    for value in given.values() if given else ():
        label, first = str(value.key), whole(given, str(value.key))
        if first is not None and 0 < first <= LAST_PORT and label in counts:
            yield _Range(label, first, first + counts[label] * role.instances, value)


def _unknown(value: Value, what: str, known: Mapping[str, object], problems: Problems) -> Problem:
    name = str(value.key)
    code = "no-such-port" if what.startswith("port") else "no-such-task-role"
    message = f"no {what} is named '{name}'; known: {listed(list(known))}"
    meant = problems.suggestions.near_miss(name, known)
    return value.problem(code, message, f"'{name}'", suggestion=meant, at_key=True)
