"""YAML documents that know where each value stands, read in bounded time and memory.

Values follow the core schema of YAML 1.2, as the job protocol says: only ``true`` and ``false`` are
booleans (``yes`` and ``on`` are text), keys are text, and there are no tags of other kinds.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pai_runtime.problems import InvalidInput, Position, Problem, in_order

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 200_000
"""Values in a document, each alias counted as all that it stands for."""

DocumentPath = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_CORE_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_STR = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Node:
    """One value. `data` is plain data; `text` a scalar as it was written; `line` and `column` from 1.

    `start` and `end` are its first and last character in the source; `children` and `keys` (the position
    of each key) are those of a list or mapping, `size` is the number of values in it. Not shown by
    ``repr``: a node may be a secret.
    """

    data: Any = field(repr=False)
    text: str = field(repr=False)
    line: int
    column: int
    start: int
    end: int
    children: Mapping[str | int, "Node"] = field(default_factory=dict, repr=False)
    keys: Mapping[str | int, tuple[int, int]] = field(default_factory=dict, repr=False)
    size: int = 1


class Document:
    """A whole document. `file` is its name in messages."""

    def __init__(self, file: str, source: str, root: Node) -> None:
        self.file = file
        self.source = source
        self.root = root

    @classmethod
    def read(cls, path: Path) -> "Document":
        """Read a file; raises `InvalidInput` for one that is not a sound document."""
        file = str(path)
        try:
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise _invalid(f"cannot be read: {error.strerror}", Position(file, 1, 1)) from None
        if len(data) > MAX_BYTES:
            raise _invalid(f"is larger than {MAX_BYTES // 1024 // 1024} MiB", Position(file, 1, 1))
        try:
            source = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[: error.start]
            place = Position(file, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
            raise _invalid(f"is not UTF-8: byte 0x{data[error.start]:02x}", place) from None
        return cls.parse(source, file)

    @classmethod
    def parse(cls, source: str, file: str) -> "Document":
        """Read a text; raises `InvalidInput`."""
        builder = _Builder(file)
        try:
            for event in yaml.parse(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                builder.feed(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file, 1, 1)
            raise _invalid(f"is not YAML: {error.problem or error.context}", place) from None
        except yaml.reader.ReaderError as error:
            before = source[: error.position]
            place = Position(file, before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1)
            raise _invalid(f"is not YAML: the character {error.character!a}", place) from None
        return cls(file, source, builder.document())

    def node(self, path: DocumentPath) -> Node | None:
        """The value at `path`."""
        node = self.root
        for part in path:
            child = node.children.get(part)
            if child is None:
                return None
            node = child
        return node

    def position(self, path: DocumentPath) -> Position:
        """Where the value at `path` stands, or the nearest that there is above it."""
        node = self.root
        for part in path:
            if part not in node.children:
                break
            node = node.children[part]
        return self.place(node)

    def key_position(self, path: DocumentPath) -> Position:
        """Where the key that `path` ends with stands."""
        parent = self.node(path[:-1])
        if parent is None or path[-1] not in parent.keys:
            return self.position(path)
        return Position(self.file, *parent.keys[path[-1]])

    def place(self, node: Node) -> Position:
        """The position of a value of this document."""
        return Position(self.file, node.line, node.column)

    def place_in(self, node: Node, text: str) -> Position:
        """Where `text` stands inside a scalar, if it is written there as it is."""
        index = self.source.find(text, node.start, node.end)
        if index < 0:
            return self.place(node)
        line = self.source.count("\n", 0, index) + 1
        return Position(self.file, line, index - (self.source.rfind("\n", 0, index) + 1) + 1)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come."""

    event: Any
    children: dict[str | int, Node] = field(default_factory=dict)
    keys: dict[str | int, tuple[int, int]] = field(default_factory=dict)
    merged: list[Node] = field(default_factory=list)
    key: str | None = None
    is_merge: bool = False
    size: int = 1


class _Builder:
    """Makes nodes of the parser's events, without recursion: how deep a document is, its writer decides."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[_Open] = []
        self._anchors: dict[str | None, Node | None] = {}
        self._roots: list[Node] = []
        self._problems: list[Problem] = []

    def document(self) -> Node:
        if not self._roots:
            raise _invalid("is empty", Position(self._file, 1, 1))
        if self._problems:
            raise InvalidInput(in_order(self._problems))
        return self._roots[0]

    def feed(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent() if self._roots:
                raise _invalid("holds a second document; expected one", self._at(event))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                node = self._anchors.get(event.anchor)
                if node is None:
                    raise _invalid(
                        f"the alias *{event.anchor} stands for nothing that is complete", self._at(event)
                    )
                self._add(node, event)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _invalid(f"is nested deeper than {MAX_DEPTH} levels", self._at(event))
        self._check_tag(event)
        if self._expects_key():
            raise _invalid("a list or mapping cannot be a key", self._at(event))
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
        mark = start.start_mark
        node = Node(
            data,
            "",
            mark.line + 1,
            mark.column + 1,
            mark.index,
            event.end_mark.index,
            opened.children,
            opened.keys,
            opened.size,
        )
        if start.anchor:
            self._anchors[start.anchor] = node
        self._add(node, start)

    def _scalar(self, event: Any) -> None:
        self._check_tag(event)
        text: str = event.value
        if "\0" in text:
            self._problems.append(Problem("the character NUL cannot be part of a value", self._at(event)))
        if self._expects_key():
            self._key(text, event)
            return
        mark = event.start_mark
        data = _scalar_data(text, event)
        node = Node(
            data,
            "" if data is None else text,
            mark.line + 1,
            mark.column + 1,
            mark.index,
            event.end_mark.index,
        )
        if event.anchor:
            self._anchors[event.anchor] = node
        self._add(node, event)

    def _key(self, text: str, event: Any) -> None:
        top = self._open[-1]
        top.is_merge = text == "<<" and event.implicit[0]
        top.key = text
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if top.is_merge:
            return
        if text in top.keys:
            first = ":".join(map(str, top.keys[text]))
            self._problems.append(
                Problem(f"the key '{text}' is here a second time; the first is at {first}", self._at(event))
            )
        top.keys[text] = place

    def _add(self, node: Node, event: Any) -> None:
        if not self._open:
            self._roots.append(node)
            return
        top = self._open[-1]
        top.size += node.size
        if top.size > MAX_NODES:
            raise _invalid(
                f"holds more than {MAX_NODES} values, aliases counted as what they stand for", self._at(event)
            )
        if isinstance(top.event, yaml.SequenceStartEvent):
            top.children[len(top.children)] = node
        elif top.key is None:
            raise _invalid("an alias cannot be a key", self._at(event))
        elif top.is_merge:
            self._add_merge(top, node, event)
            top.key = None
        else:
            top.children[top.key] = node
            top.key = None

    def _add_merge(self, top: _Open, node: Node, event: Any) -> None:
        sources = list(node.children.values()) if isinstance(node.data, list) else [node]
        if not all(isinstance(source.data, dict) for source in sources):
            raise _invalid("'<<' merges mappings only", self._at(event))
        top.merged += sources

    def _expects_key(self) -> bool:
        top = self._open[-1] if self._open else None
        return top is not None and isinstance(top.event, yaml.MappingStartEvent) and top.key is None

    def _check_tag(self, event: Any) -> None:
        if event.tag not in (None, "!") and event.tag not in _CORE_TAGS:
            self._problems.append(
                Problem(f"the tag {event.tag} is not allowed: values are plain data", self._at(event))
            )

    def _at(self, event: Any) -> Position:
        return Position(self._file, event.start_mark.line + 1, event.start_mark.column + 1)


def _merge(opened: _Open) -> None:
    for source in opened.merged:
        for key, child in source.children.items():
            if key not in opened.children:
                opened.children[key] = child
                opened.keys[key] = source.keys[key]


def _scalar_data(text: str, event: Any) -> Any:
    plain, _ = event.implicit
    if event.tag == _STR or not (plain or event.tag in _CORE_TAGS):
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _invalid(message: str, position: Position) -> InvalidInput:
    return InvalidInput([Problem(message, position)])


def walk(node: Node, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, Node]]:
    """Every scalar in `node` with its path."""
    if isinstance(node.data, (dict, list)):
        for key, child in node.children.items():
            yield from walk(child, (*path, key))
    else:
        yield path, node
