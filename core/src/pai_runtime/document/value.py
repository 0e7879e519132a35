"""Values that know where they stand: in which file, at which position, in which field."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pai_runtime.document.problems import DocumentPath, Location, Position, Problem, field_name

CHARACTERS_PER_NODE = 100
"""A longer text counts as several values: an alias could repeat it a hundred thousand times."""

_LONGEST_WRITTEN = 1000
_ITEM = re.compile(" *(- +)*- *")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def is_commands(key: object) -> bool:
    """Whether what has this key is a list of commands: ``commands``, ``preCommands`` and the like."""
    return isinstance(key, str) and key.lower().endswith("commands")


class Source:
    """The text of a file; `file` is its name in messages, `required_by` as in `Position`.

    `comment` is the index of the first comment that was left out of JSON; None, if there was none.
    """

    def __init__(self, file: str, text: str, required_by: Position | None = None) -> None:
        self.file = file
        self.text = text
        self.required_by = required_by
        self.comment: int | None = None

    def position(self, index: int) -> Position:
        """The position of a character."""
        line = bisect_right(self._line_starts, index)
        return Position(self.file, line, index - self._line_starts[line - 1] + 1, self.required_by)

    @property
    def whole(self) -> Position:
        """The position of the file as a whole."""
        return Position(self.file, required_by=self.required_by)

    def start_of(self, line: int) -> int:
        """The index of the first character of a line; that of the end of the text after the last."""
        return self._line_starts[line - 1] if line <= len(self._line_starts) else len(self.text)

    def line(self, number: int) -> str:
        """A line without what ends it."""
        return self.text[self.start_of(number) : self.start_of(number + 1)].rstrip("\r\n\x85\u2028\u2029")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]


class Node:
    """One value where it is written. `data` is plain data; `text` a scalar as it was written.

    `start` and `end` are its first and last character in the source; `children` and `keys` (where each key
    starts) are those of a list or mapping, `size` is the number of values in it, a long text counted
    as several. What is no template contains no references, whatever it looks like; nor does what was
    `inserted` into a text, from one index of it to another. Not shown by ``repr``: a node may be a secret.
    """

    __slots__ = (
        "children",
        "data",
        "end",
        "inserted",
        "is_template",
        "keys",
        "size",
        "source",
        "start",
        "text",
    )

    def __init__(self, source: Source, start: int, end: int, data: Any, text: str = "") -> None:
        self.source = source
        self.start = start
        self.end = end
        self.data = data
        self.text = text
        self.children: Mapping[str | int, Node] = {}
        self.keys: Mapping[str | int, int] = {}
        self.size = 1 + len(text) // CHARACTERS_PER_NODE
        self.is_template = True
        self.inserted: Sequence[tuple[int, int]] = ()

    @property
    def written(self) -> str:
        """How it is written; empty if that is long. Of an item with a dash, all of its line."""
        source, line = self.source, self.source.position(self.start).line
        start, stop = source.start_of(line), source.start_of(line + 1)
        if stop - start > _LONGEST_WRITTEN or self.size > _LONGEST_WRITTEN:
            return ""
        is_item = _ITEM.fullmatch(source.text, start, self.start)
        ends = [node.end for _, node in walk(self)] if is_item else [self.end]
        if any(end > stop for end in ends):
            return ""
        written = source.text[self.start : stop if is_item else self.end].strip()
        return f"- {written}" if is_item else written

    def replaced(
        self, data: Any, text: str = "", children: "Mapping[str | int, Node] | None" = None
    ) -> "Node":
        """Another value in the same place, of the same size."""
        node = Node(self.source, self.start, self.end, data, text)
        node.children, node.keys, node.size = children or {}, self.keys, self.size
        return node


class Value:
    """A value as it is reached from the root of its document, so that it knows the name of its field.

    An alias is a value of its own: its field is where the alias stands, its position that of what it stands
    for. Not shown by ``repr``, as a node.
    """

    __slots__ = ("above", "key", "node")

    def __init__(self, node: Node, above: "Value | None" = None, key: str | int = "") -> None:
        self.node = node
        self.above = above
        self.key = key

    @property
    def data(self) -> Any:
        """The value as plain data."""
        return self.node.data

    @property
    def text(self) -> str:
        """A scalar as it was written."""
        return self.node.text

    @property
    def path(self) -> DocumentPath:
        """The keys and indexes that lead to it from the root."""
        keys: list[str | int] = []
        value = self
        while value.above is not None:
            keys.append(value.key)
            value = value.above
        return tuple(reversed(keys))

    @property
    def field(self) -> str:
        """The name of its field: ``taskRoles.worker.commands[0]``; empty for the root."""
        return field_name(self.path)

    @property
    def position(self) -> Position:
        """Where it is written."""
        return self.node.source.position(self.node.start)

    @property
    def key_position(self) -> Position:
        """Where its key is written; its own position, if it has none."""
        above = self.above.node if self.above else None
        if above is None or self.key not in above.keys:
            return self.position
        return above.source.position(above.keys[self.key])

    def get(self, *path: str | int) -> "Value | None":
        """The value at a path below it."""
        value = self
        for key in path:
            child = value.node.children.get(key)
            if child is None:
                return None
            value = Value(child, value, key)
        return value

    def values(self) -> "Iterator[Value]":
        """What is in it, if it is a list or mapping."""
        for key, child in self.node.children.items():
            yield Value(child, self, key)

    def at(self, path: DocumentPath) -> Location:
        """Where the value at a path below it is, or, if there is none, the nearest that there is above."""
        value, found = self, True
        for key in path:
            child = value.get(key) if found else None
            value, found = (value, False) if child is None else (child, True)
        key_position = value.key_position if found else value.position
        written = value.node.written if found else ""
        return Location(value.position, key_position, field_name((*self.path, *path)), written)

    def problem(
        self, code: str, message: str, found: str | None = None, expected: str | None = None
    ) -> Problem:
        """An error in this value; see `Problem`."""
        return Problem(code, message, self.position, self.field, found=found, expected=expected)


def new_node(where: Node, content: Any) -> Node:
    """A new value that stands where another one does; nodes in it stay where they are."""
    if isinstance(content, Node):
        return content
    children: dict[str | int, Node] = {}
    data = content
    if isinstance(content, dict):
        children = {key: new_node(where, each) for key, each in content.items()}
        data = {key: child.data for key, child in children.items()}
    elif isinstance(content, list):
        children = {index: new_node(where, each) for index, each in enumerate(content)}
        data = [child.data for child in children.values()]
    is_scalar = not isinstance(content, (dict, list))
    node = Node(where.source, where.start, where.end, data, str(content) if is_scalar else "")
    if isinstance(content, dict):
        node.keys = {key: child.start for key, child in children.items()}
    node.children = children
    node.size += sum(child.size for child in children.values())
    return node


def walk(node: Node, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, Node]]:
    """Every scalar in `node` with its path."""
    if isinstance(node.data, (dict, list)):
        for key, child in node.children.items():
            yield from walk(child, (*path, key))
    else:
        yield path, node
