"""Errors within messages: ``training failed: ValueError('x')``, ``sync: cannot open y: No such file``.

Languages and tools put what they were doing before the message of what went wrong, and a colon or an arrow
between them. An expression for the beginning of a line finds only the outermost.
"""

import re
from collections.abc import Iterator

from pai_failure_analysis.last_words import is_of_tool, last_words
from pai_failure_analysis.mentions import is_mention
from pai_failure_analysis.plain_lines import plain

MOST_SEARCHED = 16 * 1024
"""Maximum bytes at the end of a log, or of one line, that are searched for inner messages."""

_DEPTH = 4
"""Maximum number of messages around one."""

_GOES_ON = re.compile(
    rb"""
    (?i:.*\b(?:warn|skipp|ignor|retry|continu|fall(?:s|ing)?[ ]?back))
    | .*\b(?:raise|except)\ .*                                 # source code
    | (?:\d[\d:. -]{0,40}:\ )?\[?[IWD](?:\d{3,8}\ |\ \S+:\d+\])  # glog, TensorFlow and XLA, below error
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
    rb"[^\n]{1,160}?"
    rb"(?:(?:: | [-=]> | - )[\"']?(?=\S)|[ \[](?=(?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception): ))"
)
"""What was being done, before what went wrong."""


def inner_messages(log: bytes) -> Iterator[bytes]:
    """Yield the last words of a log, then the messages within them, and so on, up to `_DEPTH` levels.

    Each text has as many lines as the log; lines that cannot tell a cause are empty. In them,
    ``KeyError('x')`` is ``KeyError: x``.
    """
    text = plain(log)
    begin = text.rfind(b"\n", 0, last_words(text)) + 1
    lines = [_AS_CODE.sub(_raised, line) if _may_tell(line) else b"" for line in text[begin:].split(b"\n")]
    lines = [b""] * text.count(b"\n", 0, begin) + lines
    yield b"\n".join(lines)
    for _ in range(_DEPTH):
        outer = [None if is_of_tool(line, 0) else _OUTER.match(line) for line in lines]
        if not any(outer):
            return
        lines = [line[found.end() :] if found else b"" for line, found in zip(lines, outer, strict=True)]
        yield b"\n".join(lines)


def _may_tell(line: bytes) -> bool:
    return not is_mention(line) and not _GOES_ON.match(line)


def _raised(exception: re.Match[bytes]) -> bytes:
    """Return an exception as the last line of a traceback has it, from a match of `_AS_CODE`."""
    name, number, quoted, double_quoted = exception.groups()
    return name + b": " + (b"[Errno %s] " % number if number else b"") + (quoted or double_quoted or b"")
