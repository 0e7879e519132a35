"""A log in pieces that have a time, from where it is to be shown."""

import calendar
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.reader import LogName, LogReader
from pai_runtime.task.runtime_log import date_of

MOST_OF_TAIL = 64 * 1024 * 1024
"""Bytes of memory for the last lines of a log: a task may write a line without end."""

_BYTES_AT_ONCE = 65536
_OF_A_PIECE = 128
"""Bytes of memory that a piece takes beside its text."""


class LogPieces:
    """The pieces of a log that are new since the last call; those that were written before `since` are not.

    What has no known time is always among them; unless the log `is_timed`, that is all of it. `is_tail_cut`:
    of the lines that `skip_to_tail` was to leave, the beginning is missing.
    """

    is_tail_cut = False

    def __init__(self, log: LogReader, kind: LogName, since: float | None, *, is_timed: bool) -> None:
        self._log = log
        self._kind = kind
        self._is_timed = is_timed
        self._since = since
        self._ready: deque[Piece] = deque()
        self._moment: float | None = None

    def next(self) -> Piece | None:
        """The next piece; None: nothing has come. Raises OSError."""
        while not self._ready:
            new = self._read()
            if not new:
                return None
            self._ready += [each for each in new if not self._is_too_old(each[0])]
        return self._ready.popleft()

    def skip_to_tail(self, lines: int, most: int) -> int:
        """Leave out all but the last lines of the next `most` bytes; how many bytes these lines have.

        Of lines that take more memory than `MOST_OF_TAIL` only the end is left.
        """
        kept: deque[Piece] = deque()
        breaks = memory = 0
        is_cut = False
        while most > 0 and (piece := self.next()):
            kept.append(piece)
            breaks += piece[1].count(b"\n")
            memory += len(piece[1]) + _OF_A_PIECE
            most -= len(piece[1])
            while (is_too_much := memory > MOST_OF_TAIL) or breaks - kept[0][1].count(b"\n") > lines:
                is_cut |= is_too_much
                _, first = kept.popleft()
                breaks -= first.count(b"\n")
                memory -= len(first) + _OF_A_PIECE
        is_unfinished = bool(kept) and not kept[-1][1].endswith(b"\n")
        self.is_tail_cut = is_cut and breaks + is_unfinished <= lines
        for _ in range(breaks + is_unfinished - lines):
            _drop_line(kept)
        self._ready.extendleft(reversed(kept))
        return sum(len(data) for _, data in kept)

    def _is_too_old(self, moment: float | None) -> bool:
        return self._since is not None and moment is not None and moment < self._since

    def _read(self) -> Sequence[Piece]:
        if self._kind == "user" and self._is_timed:
            return self._log.read_timed(_BYTES_AT_ONCE)
        data = self._log.read(_BYTES_AT_ONCE)
        if not self._is_timed:
            return [(None, data)] if data else []
        return [self._dated(line) for line in data.splitlines(keepends=True)]

    def _dated(self, line: bytes) -> Piece:
        """A line of ``runtime.log``, or a part of one, which has the time of the line."""
        self._moment = _seconds(date_of(line)) or self._moment
        return self._moment, line


def _drop_line(pieces: deque[Piece]) -> None:
    while pieces:
        moment, data = pieces.popleft()
        _, end, rest = data.partition(b"\n")
        if rest:
            pieces.appendleft((moment, rest))
        if end:
            return


@lru_cache(maxsize=64)
def _seconds(date: str | None) -> float | None:
    try:
        return calendar.timegm(time.strptime(date, "%a %b %d %H:%M:%S UTC %Y")) if date else None
    except ValueError:
        return None
