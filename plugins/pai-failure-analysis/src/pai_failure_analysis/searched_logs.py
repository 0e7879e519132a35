"""The ends of several logs as one text to search, and the lines around a match."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from pai_failure_analysis.evidence import LOG_BYTES
from pai_failure_analysis.matching import Found, searchable
from pai_runtime.plugin import Output, UserError, likely_line

CONTEXT = 3
"""Number of lines that are shown before and after a match."""

MOST_LINES = 10
"""Maximum number of lines of a match that are shown."""

SEARCHED_LINES = 40
LAST_LINES = 10
"""Number of lines at the end of a log among which one may be guessed, and that are shown."""

END = 64 * 1024
"""Bytes at the end of a log that have these lines."""

GUESS = "?"
"""The mark of a line that is only guessed."""

COLUMNS = 160
BEFORE_MATCH = 60
"""Maximum columns of a shown line, and the bytes shown before a match that is beyond them."""


@dataclass(frozen=True)
class Log:
    """The end of one log: its start in the combined text, and the number, from 1, of its first line."""

    name: str
    start: int
    first_line: int


@dataclass(frozen=True)
class Logs:
    """Several logs as one searchable text."""

    text: bytes
    logs: tuple[Log, ...]

    def position(self, index: int) -> tuple[str, int]:
        """Return the name of the log and the line number, from 1, of a byte in the text."""
        log = self.logs[bisect_right([log.start for log in self.logs], index) - 1]
        return log.name, log.first_line + self.text.count(b"\n", log.start, index)

    def lines(self, found: Found, output: Output) -> list[tuple[int, bool, str]]:
        """Return the lines of a match and around it: line number, whether it is a part of the match, text."""
        log = max((log for log in self.logs if log.start <= found.start), key=lambda log: log.start)
        end = min((log.start for log in self.logs if log.start > found.start), default=len(self.text))
        start = found.start
        for _ in range(CONTEXT + 1):
            start = self.text.rfind(b"\n", log.start, max(start, log.start))
        start = max(start + 1, log.start)
        number = log.first_line + self.text.count(b"\n", log.start, start)
        shown: list[tuple[int, bool, str]] = []
        after = 0
        while start < end and len(shown) < CONTEXT + MOST_LINES and after <= CONTEXT:
            stop = self.text.find(b"\n", start, end)
            stop = end if stop < 0 else stop
            matched = start <= max(found.start, found.end - 1) and stop >= found.start
            begin = found.start - BEFORE_MATCH if start + COLUMNS < found.start < stop else start
            line = output.log_line(self.text[begin : min(stop, begin + 4 * COLUMNS)], COLUMNS)
            shown.append((number, matched, f"…{line}" if begin > start else line))
            after += found.end <= stop
            start, number = stop + 1, number + 1
        return shown

    def end(self, output: Output) -> Iterator[str]:
        """Yield the last lines of the last log, with the one marked that may say why it failed."""
        log = self.logs[-1]
        begin = max(log.start, self.text.rfind(b"\n", log.start, max(log.start, len(self.text) - END)) + 1)
        lines = self.text[begin:].rstrip().split(b"\n")
        above = max(0, len(lines) - SEARCHED_LINES)
        number = log.first_line + self.text.count(b"\n", log.start, begin) + above
        shown = [output.log_line(line, COLUMNS) for line in lines[above:]]
        likely, end = likely_line(shown), max(0, len(shown) - LAST_LINES)
        for index, line in enumerate(shown):
            if index >= end or index == likely:
                yield f"{GUESS if index == likely else ' '} {number + index:>6} | {line}"


class Readable(Protocol):
    """An open file or a similar source of bytes."""

    def read(self, most: int, /) -> bytes:
        """Return the next bytes, at most `most`; empty at the end."""

    def close(self) -> None:
        """Close the source."""


def read_logs(logs: Iterable[tuple[str, Callable[[], Readable]]]) -> Logs:
    """Read logs, given by name and opener, to their ends. Raises `UserError` if one cannot be read."""
    text, read = b"", []
    for name, opened in logs:
        try:
            with closing(opened()) as log:
                end, lines = _end_of(log)
        except OSError as error:
            raise UserError(f"{name} cannot be read: {error.strerror}") from None
        if text and not text.endswith(b"\n"):
            text += b"\n"
        read.append(Log(name, len(text), lines + 1))
        text += searchable(end)
    return Logs(text, tuple(read))


def _end_of(log: Readable) -> tuple[bytes, int]:
    """Return the last bytes of a log, and the number of lines before them."""
    end, lines = b"", 0
    while piece := log.read(LOG_BYTES):
        end += piece
        lines += end.count(b"\n", 0, max(0, len(end) - LOG_BYTES))
        end = end[-LOG_BYTES:]
    return end, lines
