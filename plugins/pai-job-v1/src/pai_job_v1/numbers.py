"""The numbers of a job of version 1 as OpenPAI's portal reads them: with defaults, and also from strings."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pai_runtime.plugin.job_format import Node, Value, new_node

_JOB: Final[Mapping[str, int | None]] = {"retryCount": None}
_ROLE: Final[Mapping[str, int | None]] = {
    "taskNumber": 1,
    "cpuNumber": 1,
    "memoryMB": 100,
    "gpuNumber": 0,
    "shmMB": None,
    "minFailedTaskCount": None,
    "minSucceededTaskCount": None,
}
_PORT: Final[Mapping[str, int | None]] = {"beginAt": 0, "portNumber": 1}
"""The fields that are numbers, with their defaults."""

_WRITTEN = re.compile(r"\s*-?[0-9]{1,15}\s*")


def with_numbers(root: Value) -> Value:
    """Return the job with its numeric fields converted and completed by defaults."""
    roles = _each(root.node.children.get("taskRoles"), _role)
    return Value(_completed(root.node, _JOB, {"taskRoles": roles} if roles else {}))


def _role(role: Node) -> Node:
    ports = _each(role.children.get("portList"), lambda port: _completed(port, _PORT, {}))
    return _completed(role, _ROLE, {"portList": ports} if ports else {})


def _each(node: Node | None, completed: Any) -> Node | None:
    """Return a list with each of its mappings completed; None if it is not a list."""
    if node is None or not isinstance(node.data, list):
        return None
    made = [completed(each) if isinstance(each.data, dict) else each for each in node.children.values()]
    return node.with_children(dict(enumerate(made)))


def _completed(node: Node, numbers: Mapping[str, int | None], made: Mapping[str | int, Node]) -> Node:
    children: dict[str | int, Node] = {**node.children, **made}
    for name, default in numbers.items():
        if name in children:
            children[name] = _number(children[name])
        elif default is not None:
            children[name] = new_node(node, default)
    return node.with_children(children)


def _number(node: Node) -> Node:
    if not isinstance(node.data, str) or not _WRITTEN.fullmatch(node.data):
        return node
    return node.replaced(int(node.data), node.data.strip())
