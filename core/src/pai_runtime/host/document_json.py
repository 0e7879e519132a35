"""Documents and problems as JSON, to send them between processes that have read the same file."""

from collections.abc import Mapping
from typing import Any, get_args

from pai_runtime.document.document import MAX_DEPTH
from pai_runtime.document.problems import Position, Problem, Severity
from pai_runtime.document.value import Node, Source

_TEXTS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("code", "message", "field"), (str,)),
    **dict.fromkeys(("found", "expected", "suggestion"), (str, type(None))),
}
"""The fields of a problem that are texts."""


def node_to_json(node: Node) -> list[Any]:
    """A value and all that is in it, with where each stands in the file."""
    where = [node.start, node.end]
    if isinstance(node.data, dict):
        return [*where, {key: node_to_json(child) for key, child in node.children.items()}, dict(node.keys)]
    if isinstance(node.data, list):
        return [*where, [node_to_json(child) for child in node.children.values()]]
    return [*where, node.data, node.text]


def node_from_json(answer: Any, source: Source, level: int = 0) -> Node:
    """Read what `node_to_json` gave, or anything else; raises ValueError."""
    match answer:
        case [int(start), int(end), dict(found), dict(keys)]:
            children = {key: node_from_json(each, source, level + 1) for key, each in found.items()}
            node = Node(source, start, end, {key: child.data for key, child in children.items()})
            node.children, node.keys = children, keys
        case [int(start), int(end), list(items)]:
            listed = [node_from_json(each, source, level + 1) for each in items]
            node = Node(source, start, end, [child.data for child in listed])
            node.children = dict(enumerate(listed))
        case [int(start), int(end), str() | int() | float() | None as data, str(text)]:
            return _placed(Node(source, start, end, data, text))
        case _:
            raise ValueError("a value that cannot be understood")
    if level >= MAX_DEPTH:
        raise ValueError(f"values that are nested deeper than {MAX_DEPTH} levels")
    node.size += sum(child.size for child in node.children.values())
    return _placed(node)


def _placed(node: Node) -> Node:
    length = len(node.source.text)
    places: list[Any] = [node.start, node.end, *node.keys.values()]
    if not node.keys.keys() <= node.children.keys() or not all(
        isinstance(each, int) and 0 <= each <= length for each in places
    ):
        raise ValueError("a value that stands nowhere in the file")
    return node


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """A problem as data; unlike its own `to_json`, it can be read again."""
    at = problem.position
    return {**vars(problem), "position": at and [at.file, at.line, at.column]}


def problem_from_json(answer: Any) -> Problem:
    """Read what `problem_to_json` gave, or anything else; raises ValueError."""
    match answer:
        case {"position": position, "severity": severity} if (
            answer.keys() == {*_TEXTS, "position", "severity"}
            and severity in get_args(Severity)
            and all(isinstance(answer[name], kinds) for name, kinds in _TEXTS.items())
        ):
            return Problem(**{**answer, "position": _position(position)})
    raise ValueError("a problem that cannot be understood")


def _position(answer: Any) -> Position | None:
    match answer:
        case None:
            return None
        case [str(file), int(line), int(column)]:
            return Position(file, line, column)
    raise ValueError("a position that cannot be understood")
