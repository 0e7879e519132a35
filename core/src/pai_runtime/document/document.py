"""YAML in which each value knows where it stands, read in bounded time and memory.

Values follow the core schema of YAML 1.2, as the job protocol says: only ``true`` and ``false`` are
booleans (``yes`` and ``on`` are text), keys are text, and there are no tags of other kinds.
"""

import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pai_runtime.document.problems import (
    DocumentPath,
    InvalidInput,
    Location,
    Position,
    Problem,
    field_name,
    in_order,
)

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 100_000
"""Values in a document, each alias counted as all that it stands for."""
CHARACTERS_PER_NODE = 100
"""A longer text counts as several values: an alias could repeat it a hundred thousand times."""

_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_CORE_TAGS = {
    f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "int", "float", "bool", "null", "map", "seq")
}
_KINDS = {str: ["str"], bool: ["bool"], int: ["int", "float"], float: ["float"], type(None): ["null"]}

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Source:
    """The text of a file; `file` is its name in messages."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    def position(self, index: int) -> Position:
        """The position of a character."""
        line = bisect_right(self._line_starts, index)
        return Position(self.file, line, index - self._line_starts[line - 1] + 1)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]


class Node:
    """One value where it is written. `data` is plain data; `text` a scalar as it was written.

    `start` and `end` are its first and last character in the source; `children` and `keys` (where each key
    starts) are those of a list or mapping, `size` is the number of values in it, a long text counted
    as several. Not shown by ``repr``: a node may be a secret.
    """

    __slots__ = ("children", "data", "end", "keys", "size", "source", "start", "text")

    def __init__(self, source: Source, start: int, end: int, data: Any, text: str = "") -> None:
        self.source = source
        self.start = start
        self.end = end
        self.data = data
        self.text = text
        self.children: Mapping[str | int, Node] = {}
        self.keys: Mapping[str | int, int] = {}
        self.size = 1 + len(text) // CHARACTERS_PER_NODE

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
        return Location(value.position, key_position, field_name((*self.path, *path)))

    def problem(
        self, code: str, message: str, found: str | None = None, expected: str | None = None
    ) -> Problem:
        """An error in this value; see `Problem`."""
        return Problem(code, message, self.position, self.field, found=found, expected=expected)


def read_document(path: Path) -> Value:
    """The root of a file; raises `InvalidInput` for one that is not a sound document."""
    file = str(path)
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _invalid("unreadable", f"cannot be read: {error.strerror}", Position(file)) from None
    if len(data) > MAX_BYTES:
        raise _invalid("too-large", f"is larger than {MAX_BYTES // 1024 // 1024} MiB", Position(file))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The error's own bytes are without the byte order mark.
        before = error.object[: error.start].decode()
        byte = error.object[error.start]
        raise _invalid("not-utf-8", f"is not UTF-8: byte 0x{byte:02x}", _at_end(before, file)) from None
    return parse_document(text, file)


def parse_document(text: str, file: str) -> Value:
    """The root of a text; `file` is its name in messages. Raises `InvalidInput`."""
    # Not left to the parser: it counts the bytes before the character.
    if strange := _NOT_YAML.search(text):
        position = _at_end(text[: strange.start()], file)
        raise _invalid("not-yaml", f"is not YAML: the character U+{ord(strange[0]):04X}", position)
    builder = _Builder(Source(file, text))
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file)
        raise _invalid("not-yaml", f"is not YAML: {error.problem or error.context}", position) from None
    return Value(builder.document())


class _Open:
    """A list or mapping whose end has not come."""

    __slots__ = ("children", "event", "is_merge", "key", "keys", "merged", "size")

    def __init__(self, event: Any) -> None:
        self.event = event
        self.children: dict[str | int, Node] = {}
        self.keys: dict[str | int, int] = {}
        self.merged: list[Node] = []
        self.key: str | None = None
        self.is_merge = False
        self.size = 1


class _Builder:
    """Makes nodes of the parser's events, without recursion: how deep a document is, its writer decides."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str | None, Node | None] = {}
        self._roots: list[Node] = []
        self._problems: list[Problem] = []

    def document(self) -> Node:
        if not self._roots:
            raise _invalid("empty", "is empty", Position(self._source.file))
        if self._problems:
            raise InvalidInput(in_order(self._problems))
        return self._roots[0]

    def feed(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent() if self._roots:
                raise _invalid("second-document", "holds a second document; expected one", self._at(event))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                node = self._anchors.get(event.anchor)
                if node is None:
                    # Its name is not shown, nor a tag: a secret that begins with * or ! looks like one.
                    message = "this alias stands for nothing that is complete"
                    raise _invalid("unknown-alias", message, self._at(event))
                self._add(node, event)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            message = f"is nested deeper than {MAX_DEPTH} levels"
            raise _invalid("too-deep", message, self._at(event))
        self._check_tag(event, "map" if isinstance(event, yaml.MappingStartEvent) else "seq")
        if self._expects_key():
            raise _invalid("wrong-key", "a list or mapping cannot be a key", self._at(event))
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(_Open(event))

    def _end(self, event: Any) -> None:
        opened = self._open.pop()
        start = opened.event
        if isinstance(start, yaml.MappingStartEvent):
            _merge(opened)
            data: Any = {key: child.data for key, child in opened.children.items()}
        else:
            data = [child.data for child in opened.children.values()]
        node = Node(self._source, start.start_mark.index, event.end_mark.index, data)
        node.children, node.keys, node.size = opened.children, opened.keys, opened.size
        if start.anchor:
            self._anchors[start.anchor] = node
        self._add(node, start)

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        data = _scalar_data(text, event)
        self._check_tag(event, "str", *_KINDS[type(data)])
        if "\0" in text:
            message = "the character NUL cannot be part of a value"
            self._problems.append(Problem("nul", message, self._at(event)))
        if self._expects_key():
            self._key(text, event)
            return
        shown = "" if data is None else text
        node = Node(self._source, event.start_mark.index, event.end_mark.index, data, shown)
        if event.anchor:
            self._anchors[event.anchor] = node
        self._add(node, event)

    def _key(self, text: str, event: Any) -> None:
        top = self._open[-1]
        top.is_merge = text == "<<" and event.implicit[0]
        top.key = text
        if top.is_merge:
            return
        if text in top.keys:
            first = self._source.position(top.keys[text])
            message = f"the key '{text}' is here a second time; the first is at {first.line}:{first.column}"
            self._problems.append(Problem("duplicate-key", message, self._at(event)))
        top.keys[text] = event.start_mark.index

    def _add(self, node: Node, event: Any) -> None:
        if not self._open:
            self._roots.append(node)
            return
        top = self._open[-1]
        top.size += node.size
        if top.size > MAX_NODES:
            raise _invalid(
                "too-many-values",
                f"holds more than {MAX_NODES} values, aliases counted as what they stand for and long texts"
                f" as one for every {CHARACTERS_PER_NODE} characters",
                self._at(event),
            )
        if isinstance(top.event, yaml.SequenceStartEvent):
            top.children[len(top.children)] = node
        elif top.key is None:
            raise _invalid("wrong-key", "an alias cannot be a key", self._at(event))
        elif top.is_merge:
            self._add_merge(top, node, event)
            top.key = None
        else:
            top.children[top.key] = node
            top.key = None

    def _add_merge(self, top: _Open, node: Node, event: Any) -> None:
        sources = list(node.children.values()) if isinstance(node.data, list) else [node]
        if not all(isinstance(source.data, dict) for source in sources):
            raise _invalid("wrong-merge", "'<<' merges mappings only", self._at(event))
        top.merged += sources

    def _expects_key(self) -> bool:
        top = self._open[-1] if self._open else None
        return top is not None and isinstance(top.event, yaml.MappingStartEvent) and top.key is None

    def _check_tag(self, event: Any, *kinds: str) -> None:
        kind = _CORE_TAGS.get(event.tag)
        if event.tag not in (None, "!") and kind is None:
            message = "the tag here is not allowed: values are plain data"
            self._problems.append(Problem("wrong-tag", message, self._at(event)))
        elif kind is not None and kind not in kinds:
            message = f"is not a {kind}, as its tag says"
            self._problems.append(Problem("wrong-tag", message, self._at(event)))

    def _at(self, event: Any) -> Position:
        return Position(self._source.file, event.start_mark.line + 1, event.start_mark.column + 1)


def _merge(opened: _Open) -> None:
    for source in opened.merged:
        for key, child in source.children.items():
            if key not in opened.children:
                opened.children[key] = child
                opened.keys[key] = source.keys[key]


def _scalar_data(text: str, event: Any) -> Any:
    plain, _ = event.implicit
    kind = _CORE_TAGS.get(event.tag)
    if event.tag == "!" or kind == "str" or not (plain or kind):
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        return float(number) if kind == "float" else number
    if _FLOAT.fullmatch(text) and math.isfinite(real := float(text)):
        return real
    return text


def _open_at_once(path: str, flags: int) -> int:
    # Without waiting for somebody to write to it, if it is a FIFO; one that is written to is read as usual.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def _at_end(before: str, file: str) -> Position:
    return Position(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _invalid(code: str, message: str, position: Position) -> InvalidInput:
    return InvalidInput([Problem(code, message, position)])


def walk(node: Node, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, Node]]:
    """Every scalar in `node` with its path."""
    if isinstance(node.data, (dict, list)):
        for key, child in node.children.items():
            yield from walk(child, (*path, key))
    else:
        yield path, node
