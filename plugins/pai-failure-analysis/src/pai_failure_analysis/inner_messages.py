"""Errors within messages: ``training failed: ValueError('x')``, ``sync: cannot open y: No such file``,
``level=error err="…"``.

Languages and tools put what they were doing before the message of what went wrong, and a colon or an arrow
between them. An expression for the beginning of a line finds only the outermost.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from pai_failure_analysis.last_words import LINE_OF_ERROR, is_of_tool
from pai_failure_analysis.mentions import is_mention
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.usual_words import usual_words

MOST_SEARCHED = 16 * 1024
"""Maximum bytes at the end of a log, or of one line, that are searched for inner messages."""

_LONGEST = 2048
"""Maximum bytes at the end of a line that are searched for usual words."""

_DEPTH = 4
"""Maximum number of messages around one."""

_GOES_ON = re.compile(
    rb"""
    (?i:.*\b(?:warn|skipp|ignor|retry|continu|fall(?:s|ing)?[ ]?back|reconnect|re-?queue|switching[ ]to))
    | .*\b(?:raise|except)\ .*  # source code
    | \[?(?:\d[\d:. -]{0,40}:\ )?W(?:\d{4}\ |\ \S{1,200}:\d{1,6}\])  # a warning of glog or TensorFlow
    """,
    re.VERBOSE,
)
"""A line of a program that goes on, or of source code."""

_AS_CODE = re.compile(
    rb"((?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception))"
    rb"\((?:(\d{1,4}), ?)?(?:'([^'\n]*)'|\"([^\"\n]*)\")[^)\n]{0,80}\)?"
)
"""An exception as Python's ``repr`` shows it."""

_ERRNO = re.compile(rb"(?:(?!\w(?:Error|Exception): )[^\n]){0,400}?(?<!Error: )\[Errno (?=\d{1,3}\] )")
"""What stands before an error of the system that is told without the name of its exception."""

_OF_PROGRAM = re.compile(
    rb"(?:[\w./+-]{1,80}(?:\[\d+\])?|(?:open|read|write|mkdir|l?stat|rename|remove|unlink|chmod|chown|(?:sym)?link"
    rb"|connect|dial|bind|listen|chdir|exec)(?:at)? [^\n:]{1,200}): "
)
"""How a line begins with a program's name, or with a call of the system."""

_FIELDS = tuple(
    re.compile(
        rb"(?:^|[\s{,(\[])[\"']?(?:" + names + rb")[\"']?\s?[=:]\s?"
        rb"(?:\"([^\"\\\n]*(?:\\.[^\"\\\n]*){0,999})\"|'([^'\n]*)')"
    )
    for names in (
        rb"err|error|exc|exception|exc_info|traceback|cause|stderr|errorMessage|error_message",
        rb"msg|message|reason|detail|details",
    )
)
"""Fields of structured logs (JSON, logfmt) and of answers of servers: of errors, then of messages."""

_TYPE_AND_VALUE = (
    re.compile(rb'"(?:exc_type|errorType)": ?"((?:\w{1,80}\.){0,9}\w{1,80})"'),
    re.compile(rb'"(?:exc_value|errorMessage)": ?"([^"\\\n]*(?:\\.[^"\\\n]*){0,999})"'),
)
"""An exception in two fields: of Airflow's and Amazon's logs."""

_AGAIN = re.compile(
    rb"(?:^(?:[\w.]{1,80} - )?(?:WARNING|WARN|INFO|DEBUG)\b[ :-]{0,3})?"
    rb"\b(?i:retry(?:ing)?|restarting|trying again)\b"
)
_TWICE = 2
"""How a program says that it tries something again, and how many lines have to say so at the end of a log: a
program that ended while it did so may have failed because of it.
"""

_LEVEL_OF_ERROR = re.compile(
    rb"(?i:\b(?:log[._-]?)?(?:level|severity|lvl)(?:_?name)?[\"']?\s?[=:]\s?"
    rb"(?:[\"']?(?:err|crit|fatal|panic|alert|emerg)|[56]0\b))|\t(?:ERROR|FATAL)\t"
)
_TELLS_ERROR = re.compile(
    rb"""
    E\d{4}\  | \{["']error(?:Message|Type)?["']:\ ?["'{]
    | (?i:[^"'{\n]{0,400}(?<![\w"'-])(?:error|failed|failure|fatal|exception)\b[^"'{\n]{0,40}["'{])
    """,
    re.VERBOSE,
)
"""Lines whose fields tell of an error: by a level in them, or by their beginning."""

_OUTER = re.compile(
    rb"([^\n]{1,160}?)"
    rb"(?:(?:: | [-=]> | - )[\"']?(?=\S)|[ \[](?=(?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception): ))"
)
"""What was being done, before what went wrong."""

_FAILURE = re.compile(
    rb"(?!.*Error: \d+$)(?i:.*(?:error|fail|exception|fatal|cannot|could not|unable|crash|abort|died|panic))"
)
"""A line that says that something failed, and does not count errors."""

_AT_END = re.compile(rb"wandb:[ ]|" + LINE_OF_ERROR.pattern, re.VERBOSE)
"""A line after which a program has not gone on."""

_ABOUT = re.compile(rb"(?i:\b(?:expect|handled|hint|note\b|usage|pass(?:ed)?\b|test|info\b|debug\b))")
"""What stands before a message that is no failure."""


def inner_messages(log: bytes) -> Iterator[bytes]:
    """Yield the messages within the lines about errors at the end of a log, then those within these.

    Lines with ``KeyError('x')`` come first, with ``KeyError: x`` in its place, and the fields of structured
    logs last. Each text has as many lines as the log; lines that cannot tell a cause are empty. There are at
    most three times (`_DEPTH` + 1) texts, one in usual words, and one of what was tried again to the
    end.
    """
    every = plain(log).split(b"\n")
    others = (number for number, line in enumerate(every, 1) if line and not _AT_END.match(line))
    begin = max(others, default=0)
    said = [b""] * begin + [line if _may_tell(line) else b"" for line in every[begin:]]
    forms: list[Callable[[bytes], bytes]] = [written_out, *(partial(_field, each) for each in _FIELDS)]
    for form in forms:
        lines = [form(line) for line in said]
        if lines != said and any(lines):
            yield b"\n".join(lines)
        for _ in range(_DEPTH):
            lines = [_inner(line) for line in lines]
            if not any(lines):
                break
            yield b"\n".join(lines)
    last = max(0, begin - 1)
    lines = [b""] * last + [_in_usual_words(line) for line in every[last:]]
    if any(lines):
        yield b"\n".join(lines)
    if again := _tried_again(every):
        yield again


def _tried_again(lines: list[bytes]) -> bytes:
    """Return a text that has only the last of the lines, if it and the one before try something again."""
    said = [(number, line) for number, line in enumerate(lines) if line][-_TWICE:]
    if len(said) < _TWICE or not all(_AGAIN.search(line) for _, line in said):
        return b""
    number, line = said[-1]
    return b"\n" * number + _AGAIN.sub(b"", line) + b"\n" * (len(lines) - number - 1)


def _may_tell(line: bytes) -> bool:
    if line.startswith(b'{"') and not _tells_error(line):
        return False
    return _FAILURE.match(line) is not None and not is_mention(line) and not _GOES_ON.match(line)


def _in_usual_words(line: bytes) -> bytes:
    """Return what a line says in the words that the rules know; empty if it says nothing of the kind."""
    if not line or is_of_tool(line, 0) or is_mention(line) or _GOES_ON.match(line) or _ABOUT.search(line):
        return b""
    tells_failure = _FAILURE.match(line) is not None
    if not tells_failure and not _OF_PROGRAM.match(line):
        return b""
    return usual_words(line[-_LONGEST:], tells_failure=tells_failure)


def written_out(line: bytes) -> bytes:
    """Return a line with exceptions as the last line of a traceback has them."""
    if line.startswith(b"{") and all(in_two := [each.search(line) for each in _TYPE_AND_VALUE]):
        return b": ".join(each[1].replace(b'\\"', b'"') for each in in_two if each)
    line = _AS_CODE.sub(_raised, line)
    return b"OSError: [Errno " + line[found.end() :] if (found := _ERRNO.match(line)) else line


def _field(names: re.Pattern[bytes], line: bytes) -> bytes:
    """Return the last line of the last text in a field with one of the names, if it is about an error."""
    fields = list(names.finditer(line)) if _tells_error(line) else []
    if not fields or _ABOUT.search(line[: fields[-1].start()].partition(b"{")[0]):
        return b""
    found = fields[-1]
    text = found[1].replace(b'\\"', b'"') if found[2] is None else found[2]
    return written_out(text.replace(b"\\n", b"\n").strip().rpartition(b"\n")[2])


def _tells_error(line: bytes) -> bool:
    return _TELLS_ERROR.match(line) is not None or _LEVEL_OF_ERROR.search(line) is not None


def _inner(line: bytes) -> bytes:
    """Return the message within that of a line; empty if there is none."""
    outer = None if is_of_tool(line, 0) else _OUTER.match(line)
    return b"" if outer is None or _ABOUT.search(outer[1]) else line[outer.end() :]


def _raised(exception: re.Match[bytes]) -> bytes:
    """Return an exception as the last line of a traceback has it, from a match of `_AS_CODE`."""
    name, number, quoted, double_quoted = exception.groups()
    return name + b": " + (b"[Errno %s] " % number if number else b"") + (quoted or double_quoted or b"")
