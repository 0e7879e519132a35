"""Documents and problems as JSON, to send them between processes that have read the same file."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pai_document.document import MAX_DEPTH, MAX_NODES
from pai_document.problems import Position, Problem, Severity
from pai_document.value import Node, Source, data_of

_TEXTS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("code", "message", "field"), (str,)),
    **dict.fromkeys(("found", "expected", "suggestion"), (str, type(None))),
}
"""The fields of a problem that are texts."""
_MOST_VALUES: Final = 10 * MAX_NODES
"""Maximum number of values in an answer, far more than a job in a document that can be read."""
_NOT_A_VALUE: Final = "a value that cannot be understood"


def node_to_json(root: Node) -> list[list[Any]]:
    """Return a tree of nodes as rows, each node once and after its children; the last row is the root.

    A row has the start and the end of the node in the file, then its content; children are numbers of rows.
    """
    rows: list[list[Any]] = []
    numbers: dict[int, int] = {}

    def number(node: Node) -> int:
        if id(node) not in numbers:
            rows.append([node.start, node.end, *content(node)])
            numbers[id(node)] = len(rows) - 1
        return numbers[id(node)]

    def content(node: Node) -> list[Any]:
        if isinstance(node.data, dict):
            return [{key: number(child) for key, child in node.children.items()}, dict(node.keys)]
        if isinstance(node.data, list):
            return [[number(child) for child in node.children.values()]]
        return [node.data, node.text]

    number(root)
    return rows


def node_from_json(answer: Any, source: Source) -> Node:
    """Return the root of the tree in rows of `node_to_json`, in `source`.

    Raises ValueError for anything else.
    """
    nodes: list[Node] = []
    levels: list[int] = []
    for row in answer if isinstance(answer, list) else ():
        inner = _inner(row, len(nodes))
        node = _node(row, {key: nodes[number] for key, number in inner.items()}, source)
        node.size += sum(child.size for child in node.children.values())
        levels.append(max((levels[number] + 1 for number in inner.values()), default=0))
        if node.size > _MOST_VALUES or levels[-1] > MAX_DEPTH:
            raise ValueError("more values, or values nested deeper, than a document may have")
        nodes.append(node)
    if not nodes:
        raise ValueError(_NOT_A_VALUE)
    return nodes[-1]


def _inner(row: Any, known: int) -> Mapping[str | int, int]:
    """Return the rows of a node's children by key or index. Raises ValueError unless they came before it."""
    match row:
        case [_, _, dict(found), _]:
            numbers: dict[Any, Any] = found
        case [_, _, list(items)]:
            numbers = dict(enumerate(items))
        case _:
            return {}
    if not all(isinstance(each, int) and 0 <= each < known for each in numbers.values()):
        raise ValueError(_NOT_A_VALUE)
    return numbers


def _node(row: Any, children: Mapping[str | int, Node], source: Source) -> Node:
    keys: Mapping[Any, Any] = {}
    match row:
        case [int(start), int(end), dict(), dict(keys)]:
            node = Node(source, start, end, data_of(children, is_list=False))
        case [int(start), int(end), list()]:
            node = Node(source, start, end, data_of(children, is_list=True))
        case [int(start), int(end), str() | int() | float() | None as data, str(text)]:
            node = Node(source, start, end, data, text)
        case _:
            raise ValueError(_NOT_A_VALUE)
    node.children, node.keys = children, keys
    places = [start, end, *keys.values()]
    if keys.keys() - children.keys() or not all(
        isinstance(each, int) and 0 <= each <= len(source.text) for each in places
    ):
        raise ValueError("a value that stands nowhere in the file")
    return node


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON data that `problem_from_json` reads, unlike that of `Problem.to_json`."""
    at = problem.position
    document = {**vars(problem), "position": at and [at.file, at.line, at.column]}
    del document["frames"]
    return document


def problem_from_json(answer: Any) -> Problem:
    """Return the problem in data of `problem_to_json`. Raises ValueError for anything else."""
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
