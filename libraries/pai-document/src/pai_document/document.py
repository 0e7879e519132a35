"""YAML, and JSON, in which each value knows its position, read in bounded time and memory.

Values follow the core schema of YAML 1.2, as the job protocol says: only ``true`` and ``false`` are
booleans (``yes`` and ``on`` are text), keys are text, and there are no tags of other kinds.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from pai_document.json_events import is_json, json_events, without_comments
from pai_document.problems import (
    MOST_SHOWN,
    InvalidInput,
    Position,
    Problem,
    Problems,
    in_order,
)
from pai_document.value import CHARACTERS_PER_NODE, Node, Source, Value, data_of, is_commands
from pai_task.regular_file import open_regular

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 100_000
"""Values in a document, each alias counted as all that it stands for."""

_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FIRST_OF_NUMBER = frozenset("+-.0123456789")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_CORE_TAGS = {
    f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "int", "float", "bool", "null", "map", "seq")
}
_KINDS = {str: ["str"], bool: ["bool"], int: ["int", "float"], float: ["float"], type(None): ["null"]}

_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_document(path: Path) -> Value:
    """Read a YAML or JSON file and return its root. Raises `InvalidInput` if it is not a valid document."""
    return parse_document(_text(path, lambda: open(path, "rb", opener=_open_at_once)), str(path))


def read_text(path: Path) -> str:
    """Read a regular file, of at most `MAX_BYTES` of UTF-8. Raises `InvalidInput` for anything else."""
    return _text(path, lambda: open_regular(path))


def _text(path: Path, opened: Callable[[], BinaryIO]) -> str:
    file = str(path)
    try:
        with opened() as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _invalid("unreadable", f"cannot be read: {error.strerror}", Position(file)) from None
    return decoded(data, file)


def decoded(data: bytes, file: str, required_by: Position | None = None) -> str:
    """Decode a file's bytes as UTF-8. Raises `InvalidInput` if they are invalid or more than `MAX_BYTES`."""
    if len(data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB"
        raise _invalid("too-large", message, Position(file, required_by=required_by))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The error's own bytes are without the byte order mark.
        before = error.object[: error.start].decode()
        byte = error.object[error.start]
        position = Source(file, before, required_by).position(len(before))
        raise _invalid("not-utf-8", f"invalid UTF-8: byte 0x{byte:02x}", position) from None


def parse_document(text: str, file: str, problems: Problems | None = None) -> Value:
    """Parse a text as YAML or JSON and return its root; `file` is its name in messages.

    Raises `InvalidInput`. With `problems`, faults of single values, such as unknown tags, are added there
    instead, since the rest can still be read.
    """
    source = Source(file, text)
    if not is_json(text):
        plain, comment = without_comments(text)
        if comment is None or not is_json(plain):
            return parse_source(source, problems=problems)
        source = Source(file, plain)
        source.comment = comment
    return parse_source(source, lambda _: json_events(source), problems)


def yaml_events(text: str) -> Iterator[Any]:
    """Return an iterator over the events that PyYAML's parser finds in a text."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(loader(text).get_event, None)  # half of the time that `yaml.parse` takes for the same


def parse_source(
    source: Source,
    events: Callable[[str], Iterable[Any]] = yaml_events,
    problems: Problems | None = None,
) -> Value:
    """Build a document from the events of a parser and return its root; see `parse_document`."""
    # Not left to the parser: it counts the bytes before the character.
    if strange := _NOT_YAML.search(source.text):
        message = f"invalid YAML: the character U+{ord(strange[0]):04X} is not allowed"
        raise _invalid("not-yaml", message, source.position(strange.start()))
    builder = _Builder(source)
    try:
        takes = builder.takes
        for event in events(source.text):
            if take := takes.get(type(event)):
                take(event)
    except yaml.MarkedYAMLError as error:
        raise InvalidInput([builder.syntax_problem(error)]) from None
    return Value(builder.document(problems))


class _Open:
    """A list or mapping whose end the parser has not reached yet."""

    __slots__ = ("children", "event", "is_mapping", "is_merge", "key", "keys", "merged", "size")

    def __init__(self, event: Any, *, is_mapping: bool) -> None:
        self.event = event
        self.is_mapping = is_mapping
        self.children: dict[str | int, Node] = {}
        self.keys: dict[str | int, int] = {}
        self.merged: list[Node] = []
        self.key: str | None = None
        self.is_merge = False
        self.size = 1


class _Builder:
    """A builder of nodes from a parser's events, without recursion: input decides the depth."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str | None, Node | None] = {}
        self._roots: list[Node] = []
        self._problems: list[Problem] = []
        self._scalar_read: Any = None
        self.takes: Mapping[type, Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.MappingStartEvent: self._begin,
            yaml.SequenceStartEvent: self._begin,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
        }

    def document(self, problems: Problems | None) -> Node:
        if not self._roots:
            raise _invalid("empty", "the file is empty", self._source.whole)
        if problems:
            problems.add(*self._problems)
        elif self._problems:
            raise InvalidInput(in_order(self._problems))
        return self._roots[0]

    def syntax_problem(self, error: yaml.MarkedYAMLError) -> Problem:
        """Diagnose a syntax error at the place where the parser gave up."""
        from pai_document.mistakes import Fault, syntax_problem  # noqa: PLC0415 - most jobs are YAML

        at = error.problem_mark or error.context_mark
        if at is None:
            message = f"invalid YAML: {error.problem or error.context}"
            return Problem("not-yaml", message, self._source.whole)
        scalar = self._scalar_read
        starts = (top.event.start_mark.index for top in reversed(self._open) if top.event.flow_style)
        return syntax_problem(
            Fault(
                source=self._source,
                says=error.problem or error.context or "",
                index=at.index,
                context=(error.context_mark or at).index,
                commands=self._commands_column(),
                # A single pair in a list is a mapping that no bracket opens.
                bracket=next((start for start in starts if self._source.text[start] in "[{"), None),
                quoted=(scalar.start_mark.index, scalar.end_mark.index)
                if scalar and scalar.style in ("'", '"')
                else None,
            )
        )

    def _commands_column(self) -> int | None:
        """Return the column, from 0, of the innermost open block sequence if it lists commands, else None."""
        for depth in range(len(self._open) - 1, 0, -1):
            start = self._open[depth].event
            if isinstance(start, yaml.SequenceStartEvent) and not start.flow_style:
                mark: Any = start.start_mark
                return mark.column if is_commands(self._open[depth - 1].key) else None
        return None

    def _is_command(self) -> bool:
        """Return whether the next event is an item of a list of commands."""
        is_item = len(self._open) > 1 and isinstance(self._open[-1].event, yaml.SequenceStartEvent)
        return is_item and is_commands(self._open[-2].key)

    def _document(self, event: Any) -> None:
        if self._roots:
            message = "expected one YAML document, found a second one"
            raise _invalid("second-document", message, self._at(event))

    def _alias(self, event: Any) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            # Its name is not shown, nor a tag: a secret that begins with * or ! looks like one.
            message = "undefined alias, or an alias inside its own value"
            raise InvalidInput([self._of_value("unknown-alias", message, event)])
        self._add(node, event)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise _invalid("too-deep", message, self._at(event))
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag is not None:
            self._check_tag(event, "map" if is_mapping else "seq")
        if self._expects_key():
            message = "a list or mapping cannot be a key; put text that begins with '{{' in quotes"
            raise InvalidInput([self._of_value("wrong-key", message, event)])
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(_Open(event, is_mapping=is_mapping))

    def _end(self, event: Any) -> None:
        opened = self._open.pop()
        start = opened.event
        if opened.merged:
            _merge(opened)
        data = data_of(opened.children, is_list=not opened.is_mapping)
        node = Node(self._source, start.start_mark.index, event.end_mark.index, data)
        node.children, node.keys, node.size = opened.children, opened.keys, opened.size
        if start.anchor:
            self._anchors[start.anchor] = node
        self._add(node, start)

    def _scalar(self, event: Any) -> None:
        self._scalar_read = event
        text: str = event.value
        data = _scalar_data(text, event)
        if event.tag == "!" and not event.style and self._is_command():
            # YAML would drop it, which turns the condition of a command into its opposite.
            self._problems.append(
                self._of_value("wrong-tag", "in YAML, '!' at the start begins a tag", event)
            )
        if event.tag is not None:
            self._check_tag(event, "str", *_KINDS[type(data)])
        if "\0" in text:
            message = "the character NUL is not allowed"
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
            message = f"duplicate key '{text}'; the first one is at {first.line}:{first.column}"
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
                f"more than {MAX_NODES} values, with aliases expanded and a long string counted"
                f" once for every {CHARACTERS_PER_NODE} characters",
                self._at(event),
            )
        if not top.is_mapping:
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
            raise _invalid("wrong-merge", "'<<' can merge mappings only", self._at(event))
        top.merged += sources

    def _expects_key(self) -> bool:
        return bool(self._open) and self._open[-1].is_mapping and self._open[-1].key is None

    def _check_tag(self, event: Any, *kinds: str) -> None:
        kind = _CORE_TAGS.get(event.tag)
        if event.tag != "!" and kind is None:
            message = "this YAML tag is not allowed; values are plain data"
            self._problems.append(self._of_value("wrong-tag", message, event))
        elif kind is not None and kind not in kinds:
            message = f"expected a value of type {kind}, as its tag says"
            self._problems.append(Problem("wrong-tag", message, self._at(event)))

    def _of_value(self, code: str, message: str, event: Any) -> Problem:
        """Return a problem with a value, or that its line is a command that lacks quotes."""
        from pai_document.mistakes import command_problem  # noqa: PLC0415 - as above

        column = self._commands_column() if len(self._problems) < MOST_SHOWN else None
        meant = column is not None and command_problem(self._source, event.start_mark.index, column)
        return meant or Problem(code, message, self._at(event))

    def _at(self, event: Any) -> Position:
        mark = event.start_mark
        return Position(self._source.file, mark.line + 1, mark.column + 1, self._source.required_by)


def _merge(opened: _Open) -> None:
    for source in opened.merged:
        for key, child in source.children.items():
            if key not in opened.children:
                opened.children[key] = child
                opened.keys[key] = source.keys[key]


def _scalar_data(text: str, event: Any) -> Any:
    plain, _ = event.implicit
    if event.tag is None:
        return plain_scalar(text) if plain else text
    kind = _CORE_TAGS.get(event.tag)
    if event.tag == "!" or kind == "str" or not (plain or kind):
        return text
    data = plain_scalar(text)
    return float(data) if kind == "float" and isinstance(data, int) else data


def plain_scalar(text: str) -> Any:
    """Return the value of a plain (unquoted, untagged) scalar, such as ``0.1``, ``true`` or ``null``."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text) and math.isfinite(real := float(text)):
        return real
    return text


def _open_at_once(path: str, flags: int) -> int:
    # Without waiting for somebody to write to it, if it is a FIFO; one that is written to is read as usual.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def _invalid(code: str, message: str, position: Position) -> InvalidInput:
    return InvalidInput([Problem(code, message, position)])
