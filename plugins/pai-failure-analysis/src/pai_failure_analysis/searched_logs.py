"""The ends of logs as one text to search, and the lines around what was found there."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from pai_failure_analysis.evidence import LOG_BYTES
from pai_failure_analysis.matching import Found, searchable
from pai_runtime.plugin import Output, UserError

CONTEXT = 3
"""Lines that are shown before and after a match."""

MOST_LINES = 10
"""Lines of a match that are shown."""

COLUMNS = 160
BEFORE_MATCH = 60
"""Columns of a line that are shown; of a match beyond them, how many bytes are shown before it."""


@dataclass(frozen=True)
class Log:
    """The end of one log: where it begins in the text of all, and which of its lines that is, from 1."""

    name: str
    start: int
    first_line: int


@dataclass(frozen=True)
class Logs:
    """Several logs as one searchable text."""

    text: bytes
    logs: tuple[Log, ...]

    def position(self, index: int) -> tuple[str, int]:
        """The log and the line, from 1, of a byte in the text."""
        log = self.logs[bisect_right([log.start for log in self.logs], index) - 1]
        return log.name, log.first_line + self.text.count(b"\n", log.start, index)

    def lines(self, found: Found, output: Output) -> list[tuple[int, bool, str]]:
        """The lines of a match and those around it: the number, whether it is one of the match, the text."""
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


class Readable(Protocol):
    """An open file or the like."""

    def read(self, most: int, /) -> bytes:
        """The next bytes, at most so many; none at the end."""

    def close(self) -> None:
        """Nothing more will be read."""


def read_logs(logs: Iterable[tuple[str, Callable[[], Readable]]]) -> Logs:
    """Read logs to their ends, each by its name and what opens it; raises `UserError`."""
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
    """The last bytes of a log, and how many lines are before them."""
    end, lines = b"", 0
    while piece := log.read(LOG_BYTES):
        end += piece
        lines += end.count(b"\n", 0, max(0, len(end) - LOG_BYTES))
        end = end[-LOG_BYTES:]
    return end, lines
