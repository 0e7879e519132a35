"""The allocation that this process is in: its nodes, and which of them each task of a job has."""

import re
import time
from collections.abc import Mapping
from typing import Final

from pai_runtime.engine import CannotRun, ClusterError, Job
from pai_runtime.engine.classes import record
from pai_runtime.engine.records import TaskName
from pai_slurm.commands import Call, call
from pai_slurm.shapes import Shape, tasks_by_shape
from pai_slurm.times import moment_of

_COUNTS: Final = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_MOST_NODES: Final = 100_000


@record(frozen=True)
class Node:
    """A node of a component: its name and CPUs, and for how many tasks Slurm has chosen it."""

    name: str
    cpus: int
    tasks: int


@record(frozen=True)
class Component:
    """A component of the allocation; `group` is its number, None in an allocation of one component."""

    group: int | None
    nodes: tuple[Node, ...]


@record(frozen=True)
class Place:
    """Where a task runs."""

    node: str
    group: int | None
    shape: Shape


class Allocation:
    """What Slurm says of the allocation that an environment describes; it is asked when this is made."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        size = environment.get("SLURM_HET_SIZE", "")
        self._groups = range(int(size)) if size.isdecimal() else [None]
        lists = [environment.get(_of_group("SLURM_JOB_NODELIST", group), "") for group in self._groups]
        self._job = Call("scontrol", "show", "job", environment.get("SLURM_JOB_ID", ""), "--oneliner")
        self._nodes = Call("scontrol", "show", "node", ",".join(lists), "--oneliner")

    def components(self) -> list[Component]:
        """Return its components. Raises `CannotRun` or `ClusterError`."""
        return [_component(self._environment, group) for group in self._groups]

    def addresses(self, nodes: set[str]) -> dict[str, str]:
        """Return the address of each node, which may differ from its name. Raises `ClusterError`."""
        said = self._nodes.answer()
        found = re.findall(r"^NodeName=(\S+) .*?\bNodeAddr=(\S+)", said, re.MULTILINE)
        return {name: address for name, address in found if name in nodes}

    def close(self) -> None:
        """Stop asking."""
        self._job.close()
        self._nodes.close()

    def seconds_left(self) -> float | None:
        """Return for how many seconds it lasts; None if that is unlimited, or unknown."""
        try:
            end = re.search(r"\bEndTime=(\S+)", self._job.answer())
            return moment_of(end[1]) - time.time() if end else None
        except (ClusterError, ValueError):
            return None


def places_of(job: Job, components: list[Component]) -> dict[TaskName, Place]:
    """Return where each task of a job runs. Raises `CannotRun` if the allocation has no room for it."""
    by_shape = tasks_by_shape(job)
    if len(components) == 1:
        wanted = [(shape, task) for shape, tasks in by_shape.items() for task in tasks]
        return _placed(wanted, components[0])
    if len(components) != len(by_shape):
        raise CannotRun(
            f"the allocation has {len(components)} components, and the tasks {len(by_shape)} shapes;"
            " expected one component for each, or an allocation that is not heterogeneous"
        )
    places: dict[TaskName, Place] = {}
    for component, (shape, tasks) in zip(components, by_shape.items(), strict=True):
        places |= _placed([(shape, task) for task in tasks], component)
    return places


def _component(environment: Mapping[str, str], group: int | None) -> Component:
    try:
        listed = environment[_of_group("SLURM_JOB_NODELIST", group)]
        cpus = _counts(environment[_of_group("SLURM_JOB_CPUS_PER_NODE", group)])
    except KeyError as error:
        raise CannotRun(f"this is no allocation of Slurm: the variable {error} is unset") from None
    is_plain = "[" not in listed
    names = listed.split(",") if is_plain else call("scontrol", "show", "hostnames", listed).split()
    tasks = _counts(environment.get(_of_group("SLURM_TASKS_PER_NODE", group), ""))
    tasks += [0] * (len(names) - len(tasks))
    return Component(group, tuple(map(Node, names, cpus, tasks)))


def _of_group(variable: str, group: int | None) -> str:
    return variable if group is None else f"{variable}_HET_GROUP_{group}"


def _counts(text: str) -> list[int]:
    """Parse numbers such as ``2(x3),1``."""
    return [
        int(number)
        for number, times in _COUNTS.findall(text)
        for _ in range(min(int(times or 1), _MOST_NODES))
    ]


def _placed(wanted: list[tuple[Shape, TaskName]], component: Component) -> dict[TaskName, Place]:
    chosen = [node for node in component.nodes for _ in range(node.tasks)]
    if len(chosen) != len(wanted) or not _fits(wanted, chosen):
        chosen = _first_fit(wanted, component)
    return {
        task: Place(node.name, component.group, shape)
        for (shape, task), node in zip(wanted, chosen, strict=True)
    }


def _fits(wanted: list[tuple[Shape, TaskName]], chosen: list[Node]) -> bool:
    used: dict[Node, int] = {}
    for (shape, _), node in zip(wanted, chosen, strict=True):
        used[node] = used.get(node, 0) + shape.cpu
    return all(cpus <= node.cpus for node, cpus in used.items())


def _first_fit(wanted: list[tuple[Shape, TaskName]], component: Component) -> list[Node]:
    left = {node: node.cpus for node in component.nodes}
    chosen = []
    for shape, (role, index) in wanted:
        node = next((node for node, cpus in left.items() if cpus >= shape.cpu), None)
        if node is None:
            total = sum(each.cpus for each in component.nodes)
            raise CannotRun(
                f"task {role}/{index} asks for {shape.cpu} CPUs, and no node of the allocation has them left:"
                f" it has {total} CPUs on {len(left)} nodes; all tasks run at the same time"
            )
        left[node] -= shape.cpu
        chosen.append(node)
    return chosen
