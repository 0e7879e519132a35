"""Errors within messages: ``training failed: ValueError('x')``, ``sync: cannot open y: No such file``.

Languages and tools put what they were doing before the message of what went wrong, and a colon or an arrow
between them. An expression for the beginning of a line finds only the outermost.
"""

import re
from collections.abc import Iterator

from pai_failure_analysis.last_words import is_of_tool, last_words
from pai_failure_analysis.mentions import is_mention
from pai_failure_analysis.plain_lines import plain

MOST_BYTES = 16 * 1024
"""Bytes of a log whose messages are looked into."""

_HARMLESS = (b"warn", b"skip", b"ignor", b"retr", b"continu", b"fall", b"raise ", b"except ")
"""Words of lines that a program writes when it goes on, and of programs."""

_OF_GLOG = re.compile(rb"(?:\d[\d:. -]{0,40}: )?\[?[IWD](?:\d{3,8})? ")
"""What glog, TensorFlow and XLA put before a line whose level is below error."""

_DEPTH = 4
"""Maximum number of messages around one."""

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
    """Yield the last words of a log, the messages within them, the messages within these, and so on.

    Exceptions are in them as Python prints them. The number of lines stays.
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
    return (
        not is_mention(line)
        and not _OF_GLOG.match(line)
        and not any(word in line.lower() for word in _HARMLESS)
    )


def _raised(exception: re.Match[bytes]) -> bytes:
    name, number, *texts = exception.groups()
    return name + b": " + (b"[Errno %s] " % number if number else b"") + b"".join(filter(None, texts))
