"""Documents as YAML in block style with comments, as a person would write it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from pai_runtime.document.document import plain_scalar
from pai_runtime.document.printable import printable
from pai_runtime.document.problems import DocumentPath
from pai_runtime.document.yaml_line import yaml_line

_INDENT = 2
_WIDTH = 100
_INDICATORS = tuple("-?:,[]{}#&*!|>'\"%@`")
_NOT_PLAIN = re.compile(r":(\s|$)|\s#|^\s|\s$")
_MOST_IN_KEY = 100
"""Maximum length of a key on the line of its value; YAML allows no long one."""


def yaml_lines(document: Mapping[str, Any], comments: Mapping[DocumentPath, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a document; each of the `comments` precedes the value at its path."""
    yield from _mapping(document, (), 0, comments)


def _mapping(
    document: Mapping[str, Any],
    path: DocumentPath,
    indent: int,
    comments: Mapping[DocumentPath, Sequence[str]],
) -> Iterator[str]:
    for key, value in document.items():
        written = _flow(key)
        is_short = len(written) <= _MOST_IN_KEY
        if not is_short:
            yield f"{' ' * indent}? {written}"
        yield from _entry(f"{written}:" if is_short else ":", value, (*path, key), indent, comments)


def _entry(
    start: str, value: Any, path: DocumentPath, indent: int, comments: Mapping[DocumentPath, Sequence[str]]
) -> Iterator[str]:
    """Yield the lines of a key or a dash, and its value."""
    margin = " " * indent
    for text in comments.get(path, ()):
        lines = wrap(printable(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
        yield from (f"{margin}# {line}" for line in lines)
    if isinstance(value, dict) and value:
        inner = _mapping(value, path, indent + _INDENT, comments)
        yield from _after_dash(margin, inner) if start == "-" else (margin + start, *inner)
    elif isinstance(value, list) and value:
        yield margin + start
        for index, each in enumerate(value):
            yield from _entry("-", each, (*path, index), indent + _INDENT, comments)
    elif isinstance(value, str) and _is_block(value):
        yield f"{margin}{start} {'|' if value.endswith(chr(10)) else '|-'}"
        lines = value.removesuffix("\n").split("\n")
        yield from (f"{margin}{' ' * _INDENT}{line}" if line else "" for line in lines)
    else:
        yield f"{margin}{start} {_flow(value)}"


def _after_dash(margin: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a mapping that is an item, with the dash before its first key, after comments."""
    has_dash = False
    for line in lines:
        is_key = not has_dash and not line.lstrip().startswith("#")
        yield f"{margin}- {line[len(margin) + _INDENT :]}" if is_key else line
        has_dash = has_dash or is_key


def _flow(value: Any) -> str:
    """Format a scalar, or an empty container, on one line."""
    if isinstance(value, str) and _is_plain(value):
        return value
    if isinstance(value, str) and _is_seen(value):
        return "'" + value.replace("'", "''") + "'"
    return yaml_line(value)


def _is_plain(text: str) -> bool:
    if not _is_seen(text) or not text or text.startswith(_INDICATORS) or text == "<<":
        return False
    return not _NOT_PLAIN.search(text) and isinstance(plain_scalar(text), str)


def _is_block(text: str) -> bool:
    """Return whether a text has several lines that a block can contain unchanged."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) == 1 or not lines[0].strip() or lines[0].startswith((" ", "\t")) or not lines[-1].strip():
        return False
    return printable(text.replace("\n", "")) == text.replace("\n", "")


def _is_seen(text: str) -> bool:
    """Return whether a text is printed as it is."""
    return printable(text) == text and "\t" not in text
