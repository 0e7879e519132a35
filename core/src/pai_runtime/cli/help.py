"""The help of the program: its commands in groups by what people do, each with an example."""

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

GROUPS: Final = {
    "write": "write a job",
    "run": "run it",
    "look": "look at runs",
    "clean": "clean up",
    "operate": "for operators of clusters",
}
"""The groups of commands, each with its heading; `group` in a plugin's manifest is one of them."""
_OTHERS: Final = "of plugins"

_INDENT: Final = "  "
_COLUMN: Final = 15
_LEAST_WIDTH: Final = 2 * _COLUMN


class BuiltIn(NamedTuple):
    """A command of the program itself: its group, what it does, and an example without the program's name."""

    group: str
    summary: str
    example: str


def example(line: str) -> str | None:
    """Return the part of a command's help that shows an example; None if there is none."""
    return f"example:\n{_INDENT}pai-runtime {line}" if line else None


def overview(parsers: Mapping[str, Any]) -> str:
    """Return the names and summaries of commands, in their groups, from their parsers by name."""
    found: dict[str, list[str]] = {heading: [] for heading in (*GROUPS.values(), _OTHERS)}
    for name, parser in parsers.items():
        found[GROUPS.get(parser.group, _OTHERS)].append(
            f"{_INDENT}{name:{_COLUMN - 4}}  {parser.description}"
        )
    return "\n\n".join("\n".join((f"{heading}:", *lines)) for heading, lines in found.items() if lines)


class HelpFormatter(argparse.HelpFormatter):
    """A formatter that keeps texts and their lines as they are, but wraps them."""

    def _format_text(self, text: str) -> str:
        # Without filling in ``%(prog)``: some texts are those of plugins.
        return f"{self._fill_text(text, max(self._width, _LEAST_WIDTH), '')}\n\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(_wrapped(text, width, indent))


def _wrapped(text: str, width: int, indent: str) -> Iterator[str]:
    for line in text.split("\n"):
        later = " " * _COLUMN if line.startswith(_INDENT) else ""
        yield textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent + later)
