"""Errors within messages: ``training failed: ValueError('x')``, ``sync: cannot open y: No such file``.

Languages and tools put what they were doing before the message of what went wrong, and a colon or an arrow
between them. An expression for the beginning of a line finds only the outermost.
"""

import re
from collections.abc import Iterator

from pai_failure_analysis.last_words import LINE_OF_ERROR, is_of_tool
from pai_failure_analysis.mentions import is_mention
from pai_failure_analysis.plain_lines import plain

MOST_SEARCHED = 16 * 1024
"""Maximum bytes at the end of a log, or of one line, that are searched for inner messages."""

_DEPTH = 4
"""Maximum number of messages around one."""

_GOES_ON = re.compile(
    rb"""
    (?i:.*\b(?:warn|skipp|ignor|retry|continu|fall(?:s|ing)?[ ]?back))
    | .*\b(?:raise|except)\ .*  # source code
    | (?:\d[\d:. -]{0,40}:\ )?W(?:\d{4}\ |\ \S{1,200}:\d{1,6}\])  # a warning of glog or TensorFlow
    """,
    re.VERBOSE,
)
"""A line of a program that goes on, or of source code."""

_AS_CODE = re.compile(
    rb"((?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception))"
    rb"\((?:(\d{1,4}), ?)?(?:'([^'\n]*)'|\"([^\"\n]*)\")[^)\n]{0,80}\)?"
)
"""An exception as Python's ``repr`` shows it."""

_OUTER = re.compile(
    rb"([^\n]{1,160}?)"
    rb"(?:(?:: | [-=]> | - )[\"']?(?=\S)|[ \[](?=(?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception): ))"
)
"""What was being done, before what went wrong."""

_FAILURE = re.compile(
    rb"(?!.*Error: \d+$)(?i:.*(?:error|fail|exception|fatal|cannot|could not|unable|crash|abort|died))"
)
"""A line that says that something failed, and does not count errors."""

_ABOUT = re.compile(rb"(?i:\b(?:expect|handled|hint|note\b|usage|pass(?:ed)?\b|test|info\b|debug\b))")
"""What stands before a message that is no failure."""


def inner_messages(log: bytes) -> Iterator[bytes]:
    """Yield the messages within the lines about errors at the end of a log, then those within these.

    Lines with ``KeyError('x')`` come first, with ``KeyError: x`` in its place. Each text has as many lines as
    the log; lines that cannot tell a cause are empty. There are at most `_DEPTH` + 1 texts.
    """
    lines = plain(log).split(b"\n")
    others = (number for number, line in enumerate(lines, 1) if line and not LINE_OF_ERROR.match(line))
    begin = max(others, default=0)
    said = [b""] * begin + [line if _may_tell(line) else b"" for line in lines[begin:]]
    lines = [_AS_CODE.sub(_raised, line) for line in said]
    if lines != said:
        yield b"\n".join(lines)
    for _ in range(_DEPTH):
        lines = [_inner(line) for line in lines]
        if not any(lines):
            return
        yield b"\n".join(lines)


def _may_tell(line: bytes) -> bool:
    return _FAILURE.match(line) is not None and not is_mention(line) and not _GOES_ON.match(line)


def _inner(line: bytes) -> bytes:
    """Return the message within that of a line; empty if there is none."""
    outer = None if is_of_tool(line, 0) else _OUTER.match(line)
    return b"" if outer is None or _ABOUT.search(outer[1]) else line[outer.end() :]


def _raised(exception: re.Match[bytes]) -> bytes:
    """Return an exception as the last line of a traceback has it, from a match of `_AS_CODE`."""
    name, number, quoted, double_quoted = exception.groups()
    return name + b": " + (b"[Errno %s] " % number if number else b"") + (quoted or double_quoted or b"")
