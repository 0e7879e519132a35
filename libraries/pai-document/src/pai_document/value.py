"""Values of a document that know their file, position and field."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pai_document.problems import DocumentPath, Location, Position, Problem, Severity, field_name

CHARACTERS_PER_NODE = 100
"""A longer text counts as several values: an alias could repeat it a hundred thousand times."""

_LONGEST_WRITTEN = 1000
_ITEM = re.compile(" *(- +)*- *")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def is_commands(key: object) -> bool:
    """Return whether a key names a list of shell commands: ``commands``, ``preCommands`` and the like."""
    return isinstance(key, str) and key.lower().endswith("commands")


class Source:
    """The text of a file, with positions by index.

    `file` is its name in messages, `required_by` as in `Position`. `comment` is the index of the first
    comment that was removed from JSON; None if there was none.
    """

    def __init__(self, file: str, text: str, required_by: Position | None = None) -> None:
        self.file = file
        self.text = text
        self.required_by = required_by
        self.comment: int | None = None

    def position(self, index: int) -> Position:
        """Return the position of the character at an index."""
        line = bisect_right(self._line_starts, index)
        return Position(self.file, line, index - self._line_starts[line - 1] + 1, self.required_by)

    @property
    def whole(self) -> Position:
        """The position of the file as a whole."""
        return Position(self.file, required_by=self.required_by)

    def start_of(self, line: int) -> int:
        """Return the index of a line's first character; the length of the text for a line after the last."""
        return self._line_starts[line - 1] if line <= len(self._line_starts) else len(self.text)

    def line(self, number: int) -> str:
        """Return a line, counted from 1, without its line break."""
        return self.text[self.start_of(number) : self.start_of(number + 1)].rstrip("\r\n\x85\u2028\u2029")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]


class Node:
    """One value of a document with its place in the source; `data` is plain data, `text` a scalar as written.

    `start` and `end` are the indexes of its first character and behind its last one; `children` and `keys`
    (the index of each key) are those of a list or mapping. `size` is the number of values in it, where a long
    text counts as several. Without `is_template` it contains no references, whatever it looks like; nor do
    the ranges of indexes in `inserted`. ``repr`` does not show it: a node may be a secret.
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
        """The source text of the value; of a list item, its whole line with the dash.

        Empty if it is long or spans lines.
        """
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
        """Return a copy with other data and text, at the same position and of the same size."""
        node = Node(self.source, self.start, self.end, data, text)
        node.children, node.keys, node.size = children or {}, self.keys, self.size
        return node

    def with_children(self, children: "Mapping[str | int, Node]") -> "Node":
        """Return a copy of a list or mapping with other children, at the same position."""
        return self.replaced(data_of(children, is_list=isinstance(self.data, list)), children=children)


class Value:
    """A node as reached from the root of its document, so that it knows its key and field.

    An alias is a value of its own: its field is where the alias stands, its position that of the anchor.
    ``repr`` does not show it, as for a node.
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
        """The scalar as it was written."""
        return self.node.text

    @property
    def path(self) -> DocumentPath:
        """The keys and indexes that lead from the root to this value."""
        keys: list[str | int] = []
        value = self
        while value.above is not None:
            keys.append(value.key)
            value = value.above
        return tuple(reversed(keys))

    @property
    def field(self) -> str:
        """The name of the field, such as ``taskRoles.worker.commands[0]``; empty for the root."""
        return field_name(self.path)

    @property
    def position(self) -> Position:
        """The position of the value."""
        return self.node.source.position(self.node.start)

    @property
    def key_position(self) -> Position:
        """The position of the value's key; that of the value if it has no key."""
        above = self.above.node if self.above else None
        if above is None or self.key not in above.keys:
            return self.position
        return above.source.position(above.keys[self.key])

    def get(self, *path: str | int) -> "Value | None":
        """Return the value at a path of keys and indexes below this one; None if there is none."""
        value = self
        for key in path:
            child = value.node.children.get(key)
            if child is None:
                return None
            value = Value(child, value, key)
        return value

    def values(self) -> "Iterator[Value]":
        """Yield the items of a list or the values of a mapping."""
        for key, child in self.node.children.items():
            yield Value(child, self, key)

    def at(self, path: DocumentPath) -> Location:
        """Return the location of the value at a path below, or of its nearest existing parent."""
        value, found = self, True
        for key in path:
            child = value.get(key) if found else None
            value, found = (value, False) if child is None else (child, True)
        key_position = value.key_position if found else value.position
        written = value.node.written if found else ""
        return Location(value.position, key_position, field_name((*self.path, *path)), written)

    def problem(
        self,
        code: str,
        message: str,
        found: str | None = None,
        expected: str | None = None,
        *,
        suggestion: str | None = None,
        severity: Severity = "error",
        at_key: bool = False,
    ) -> Problem:
        """Return a `Problem` with this value, or with its key if `at_key`."""
        position = self.key_position if at_key else self.position
        return Problem(code, message, position, self.field, found, expected, suggestion, severity)


def data_of(children: Mapping[str | int, Node], *, is_list: bool) -> Any:
    """Return the plain data of a list or mapping with these children."""
    if is_list:
        return [child.data for child in children.values()]
    return {key: child.data for key, child in children.items()}


def new_node(where: Node, content: Any) -> Node:
    """Return a new value at the position of another node; nodes inside it keep their own positions."""
    if isinstance(content, Node):
        return content
    if not isinstance(content, (dict, list)):
        return Node(where.source, where.start, where.end, content, str(content))
    is_list = isinstance(content, list)
    items = content if isinstance(content, dict) else dict(enumerate(content))
    children = {key: new_node(where, each) for key, each in items.items()}
    node = Node(where.source, where.start, where.end, data_of(children, is_list=is_list))
    node.children = children
    node.keys = {} if is_list else {key: child.start for key, child in children.items()}
    node.size += sum(child.size for child in children.values())
    return node


def walk(node: Node, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, Node]]:
    """Yield every scalar below `node` with its path."""
    if isinstance(node.data, (dict, list)):
        for key, child in node.children.items():
            yield from walk(child, (*path, key))
    else:
        yield path, node
