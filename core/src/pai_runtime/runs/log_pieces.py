"""The part of a log that is to be shown, in pieces with their times."""

import calendar
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.reader import LogName, LogReader
from pai_task.runtime_log import date_of

MOST_OF_TAIL = 64 * 1024 * 1024
"""Maximum memory in bytes for the last lines of a log: a task may write an endless line."""

_BYTES_AT_ONCE = 65536
_OF_A_PIECE = 128
"""Memory in bytes that a piece takes beside its text."""


class LogPieces:
    """The pieces of a log that are new since the last call, without those written before `since`.

    Pieces without a known time are always included; unless the log `is_timed`, those are all. `is_tail_cut`
    is true if the lines that `skip_to_tail` kept lack their beginning.
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
        """Return the next piece; None if there is nothing new. Raises OSError."""
        while not self._ready:
            new = self._read()
            if not new:
                return None
            self._ready += [each for each in new if not self._is_too_old(each[0])]
        return self._ready.popleft()

    def skip_to_tail(self, lines: int, most: int) -> int:
        """Skip all but the last `lines` lines of the next `most` bytes; return the size of what is kept.

        If they take more memory than `MOST_OF_TAIL`, only their end is kept.
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
        """Return a line of ``runtime.log``, or a part of one, with the time of the line."""
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
