"""Changes that the command line makes to a job, before it is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pai_document.document import parse_document, plain_scalar
from pai_document.problems import (
    DocumentPath,
    InvalidInput,
    Position,
    Problem,
    Problems,
    listed,
    near_miss,
    unexpected,
)
from pai_document.value import Node, Value
from pai_task.record import field, record
from pai_task.record_json import from_json, to_json


@record(frozen=True)
class Overrides:
    """Command-line overrides: parameters as written there, by name, and the number of instances by task role.

    A name with dots, such as ``model.depth``, is that of a nested parameter. `strict_callbacks` makes
    callbacks strict, whatever the job says. `environment` are variables of all tasks, by name.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, int] = field(default_factory=dict)
    strict_callbacks: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the overrides as a JSON object, for a process that reads the job again elsewhere."""
        return to_json(self)

    @classmethod
    def from_json(cls, document: Any) -> Overrides:
        """Parse the output of `to_json`. Raises `ValueError` if it is invalid."""
        return from_json(cls, document)


NO_OVERRIDES: Final = Overrides()


def overridden(root: Value, overrides: Overrides, problems: Problems) -> Value:
    """Return the document of a job with the overrides applied; reports those that are not possible.

    A new value has the position of the one that it replaces.
    """
    for name, text in overrides.parameters.items():
        with problems.caught():
            root = _with_parameter(root, name, text)
    for role, number in overrides.instances.items():
        with problems.caught():
            root = _with_instances(root, role, number)
    return root


def _with_parameter(root: Value, name: str, text: str) -> Value:
    path: DocumentPath = ("parameters",)
    found = root.get(*path)
    for part in name.split("."):
        is_index = found and isinstance(found.data, list) and re.fullmatch("[0-9]{1,9}", part)
        key = int(part) if is_index else part
        path = (*path, key)
        if found is None or found.get(key) is None:
            known = [str(each) for each in found.node.children] if found else []
            raise InvalidInput([_unknown("parameter", name, part, known, Position("--set"))])
        found = found.get(key)
    if found is None or isinstance(found.data, (dict, list)):
        message = f"{name} is a list or mapping; set one of its values, as in model.depth=3 or sizes.0=3"
        raise InvalidInput([Problem("wrong-type", message, Position("--set"), f"parameters.{name}")])
    return Value(_with(root.node, path, _scalar(found.node, name, text)))


def _scalar(old: Node, name: str, text: str) -> Node:
    """Return a node to replace `old`: typed as a YAML scalar, or a string if quoted; never a template."""
    where, is_quoted = f"--set {name}", text[:1] in ("'", '"')
    given = parse_document(text if is_quoted else json.dumps(text, ensure_ascii=False), where)
    if not isinstance(given.data, str):
        message = unexpected("a value in quotes, and nothing after it", None)
        raise InvalidInput([Problem("wrong-type", message, Position(where))])
    data = given.data if is_quoted else plain_scalar(text)
    node = old.replaced(data, "" if data is None else given.text)
    node.is_template = False
    return node


def _with_instances(root: Value, role: str, number: int) -> Value:
    roles = root.get("taskRoles")
    found = roles.get(role) if roles else None
    if found is None or not isinstance(found.data, dict):
        known = [str(each) for each in roles.node.children] if roles else []
        raise InvalidInput([_unknown("task role", role, role, known, Position("--role-instances"))])
    old = found.get("instances") or found
    path = ("taskRoles", role, "instances")
    return Value(_with(root.node, path, old.node.replaced(number, str(number))))


def _unknown(what: str, name: str, part: str, known: list[str], position: Position) -> Problem:
    offered = f"known: {listed(known)}" if known else "the job has none there"
    return Problem(
        f"no-such-{what.replace(' ', '-')}",
        f"no {what} is named '{name}'; {offered}",
        position,
        found=f"'{name}'",
        suggestion=near_miss(part, known),
    )


def _with(node: Node, path: DocumentPath, new: Node) -> Node:
    """Return a copy of a node with `new` at a path below it, where nothing needs to be yet."""
    if not path:
        return new
    key, *below = path
    inner = _with(node.children[key], tuple(below), new) if below else new
    return node.with_children({**node.children, key: inner})
