"""Printing of task logs: each unchanged, or as lines of all of them ordered by time."""

import errno
import heapq
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import TypeVar

from pai_runtime.runs.log_pieces import MOST_OF_TAIL, LogPieces
from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.reader import LogName, RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.terminal.output import flush, say, write_bytes
from pai_runtime.terminal.text import some
from pai_task.console import LinePrefix
from pai_task.record import record

_MOST_A_TURN = 1024 * 1024
_POLL = 0.25
_REST = 15.0
"""Seconds to wait for a cluster to deliver the last output of a task that has ended."""

_T = TypeVar("_T")


class CannotReadLog(Exception):
    """The exception for a log that cannot be read, or is gone."""


@record(frozen=True)
class WantedLogs:
    """Which logs are printed, and how.

    `attempt` selects an earlier attempt, counted from 0; None is the last one. `tail` limits each log to its
    last lines, `since` to what was written at that time (seconds since 1970) or later. `prefixed` puts the
    task's name before each line, `timestamps` the time. `follow` continues until the tasks have ended.
    """

    kind: LogName
    attempt: int | None
    tail: int | None
    since: float | None
    prefixed: bool
    timestamps: bool
    follow: bool


def print_logs(reader: RunReader, tasks: Sequence[RunTask], wanted: WantedLogs) -> None:
    """Print the logs of some tasks of a run.

    Raises `CannotReadLog`, for logs that are gone only at the end.
    """
    logs = [_Log(reader, task, wanted) for task in tasks]
    merger = _Merger(logs)
    if wanted.follow:
        _follow(reader, logs, merger)
    else:
        merger.print_new()
    gone: dict[str, list[str]] = {}
    for log in logs:
        gone.setdefault(log.why_gone, []).append(log.task)
    gone.pop("", None)
    if gone:
        raise CannotReadLog("; ".join(f"{some(tasks)}: {why}" for why, tasks in gone.items()))


class _Log:
    """The log of one task and how it is printed: unchanged, or as lines behind its name and the time."""

    def __init__(self, reader: RunReader, task: RunTask, wanted: WantedLogs) -> None:
        is_earlier = wanted.attempt not in (None, task.retries)
        self._log = reader.log(task, wanted.kind, wanted.attempt if is_earlier else None)
        self._grows = wanted.follow and not is_earlier
        self.task = task.name
        self.has_ended = False
        self.why_gone = ""
        self._prefix = f"{task.name} | " if wanted.prefixed else ""
        self._timestamps = wanted.timestamps
        self._lines = LinePrefix(b"") if wanted.prefixed or wanted.timestamps else None
        self._has_told = False
        self._tells_unknown = wanted.timestamps or wanted.since is not None
        is_timed = wanted.prefixed or self._tells_unknown
        self._pieces = LogPieces(self._log, wanted.kind, wanted.since, is_timed=is_timed)
        size = self._log.size()  # what is there now: a task may write faster than we do
        if (tail := wanted.tail) is not None:
            size = self._read(lambda: self._pieces.skip_to_tail(tail, size)) or 0
            if self._pieces.is_tail_cut:
                say(
                    f"{self.task}: of its last {tail} lines, only the last {MOST_OF_TAIL >> 20} MiB are shown"
                )
        self._left: float = math.inf if self._grows else size

    def next(self) -> Piece | None:
        """Return the next piece to print; None if there is nothing new."""
        piece = self._read(self._pieces.next) if not self.has_ended and self._left > 0 else None
        if piece is not None:
            self._left -= len(piece[1])
        elif not self._grows:
            self.end()
        return piece

    def print(self, piece: Piece) -> None:
        """Print a piece that `next` returned."""
        moment, data = piece
        if moment is None and self._tells_unknown:
            say(f"{self.task}: it is not known when some or all of its lines were written")
            self._tells_unknown = False
        if self._lines:
            stamp = f"{_timestamp(moment)} " if self._timestamps else ""
            self._lines.prefix = f"{self._prefix}{stamp}".encode()
            data = self._lines.feed(data)
        write_bytes(data)

    def is_at_end(self) -> bool:
        """Return whether everything has been read that will come of a task that has ended."""
        return self._log.is_at_end()

    def end(self) -> None:
        """End the log, after printing a last line without a newline."""
        if self._lines and not self.has_ended:
            write_bytes(self._lines.flush())
        self._log.close()
        self.has_ended = True

    def _read(self, read: Callable[[], _T]) -> _T | None:
        """Return what `read` returns; None if the log is gone or cannot be read now.

        Raises `CannotReadLog`.
        """
        try:
            return read()
        except OSError as error:
            if error.errno == errno.ENODATA:
                self.why_gone = f"{error.strerror}"
                return None
            if error.errno == errno.EAGAIN:
                if not self._has_told:
                    say(f"{self._log.name} cannot be read now: {error.strerror}")
                self._has_told = True
                return None
            raise CannotReadLog(f"{self._log.name} cannot be read: {error.strerror}") from None


class _Merger:
    """A merger of several logs, which prints them in the order of their times."""

    def __init__(self, logs: Sequence[_Log]) -> None:
        self._logs = logs
        self._next: list[tuple[float, int, Piece]] = []  # of each log one at most, with its number

    def print_new(self, most: float = math.inf) -> bool:
        """Print what is new, up to about `most` bytes; return whether that was everything."""
        for number in set(range(len(self._logs))) - {number for _, number, _ in self._next}:
            self._look(number)
        while self._next and most > 0:
            _, number, piece = heapq.heappop(self._next)
            self._logs[number].print(piece)
            most -= len(piece[1])
            self._look(number)
        return not self._next

    def _look(self, number: int) -> None:
        if piece := self._logs[number].next():
            heapq.heappush(self._next, (piece[0] or 0, number, piece))


def _follow(reader: RunReader, logs: Sequence[_Log], merger: _Merger) -> None:
    """Print the logs, and whatever follows until their tasks have ended."""
    left, ended = list(logs), dict[str, float]()
    while left:
        # Looked at first: what has ended by now writes nothing more.
        over = _over(reader.run(), {log.task for log in left})
        is_all = merger.print_new(_MOST_A_TURN)
        for log in left if is_all else ():
            if log.task in over:
                since = ended.setdefault(log.task, time.monotonic())
                if log.is_at_end() or time.monotonic() > since + _REST:
                    log.end()
        left = [log for log in left if not log.has_ended]
        flush()
        if left and is_all:
            time.sleep(_POLL)


def _over(run: Run | Unreadable, tasks: set[str]) -> set[str]:
    """Return the names of the tasks that will write nothing more."""
    if isinstance(run, Unreadable) or run.over:
        return tasks
    return {task.name for task in run.tasks if task.over}


def _timestamp(moment: float | None) -> str:
    """Format a time in UTC to the millisecond; a dash if it is unknown."""
    if moment is None:
        return "-"
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
