"""``pai-runtime logs``: the logs of a run's tasks."""

import argparse
import heapq
import math
import re
import resource
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import TypeVar

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.arguments import add_run, task_name
from pai_runtime.cli.given_run import NotThere, given_run, given_task
from pai_runtime.document.duration import seconds
from pai_runtime.runs.log_pieces import LogPieces
from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.reader import LogName, RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.task.console import LinePrefix
from pai_runtime.terminal.output import flush, say, write_bytes

_MOST_A_TURN = 1024 * 1024
_POLL = 0.25

_T = TypeVar("_T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_run(parser)
    parser.add_argument(
        "task",
        nargs="?",
        type=task_name,
        metavar="ROLE/INDEX",
        help="one task, such as worker/0 (default: all)",
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep printing new output until the tasks have ended"
    )
    parser.add_argument(
        "--runtime", action="store_true", help="show the runtime's own log, with the output of callbacks"
    )
    parser.add_argument("--tail", type=_number, metavar="N", help="show only the last N lines of each task")
    parser.add_argument(
        "--since",
        type=_moment,
        metavar="TIME",
        help="show only what was written since this time: a time span such as 10m, or a time such as "
        "2026-01-31T12:00:00Z",
    )
    parser.add_argument(
        "--timestamps",
        action="store_true",
        help="precede each line by the time at which it was written (UTC)",
    )
    parser.add_argument(
        "--attempt",
        type=_number,
        metavar="N",
        help="show this attempt of the tasks, counted from 0 (default: the last one)",
    )


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such run, task or attempt."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a job may have many tasks
    try:
        reader, run = given_run(args.run)
        tasks = run.tasks if args.task is None else (given_task(reader.folder, run, args.task),)
        prefixed = args.task is None and len(tasks) > 1
        logs = [_Log(reader, task, args, prefixed=prefixed) for task in _with_attempt(tasks, args.attempt)]
        merger = _Merger(logs)
        if args.follow:
            _follow(reader, logs, merger)
        else:
            merger.print_new()
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    return 0


def _with_attempt(tasks: Sequence[RunTask], attempt: int | None) -> Sequence[RunTask]:
    """Those that have had an attempt of this number."""
    last = max((task.retries for task in tasks), default=0)
    if attempt is not None and attempt > last:
        raise NotThere(f"there is no attempt {attempt} yet; the last one is attempt {last}")
    return [task for task in tasks if attempt is None or attempt <= task.retries]


class _Log:
    """Prints the log of one task: as it is, or as lines behind the task's name and their times."""

    def __init__(self, reader: RunReader, task: RunTask, args: argparse.Namespace, *, prefixed: bool) -> None:
        kind: LogName = "runtime" if args.runtime else "user"
        is_earlier = args.attempt not in (None, task.retries)
        self._log = reader.log(task, kind, args.attempt) if is_earlier else reader.log(task, kind)
        self._grows = args.follow and not is_earlier
        self.task = task.name
        self.has_ended = False
        self._prefix = f"{task.name} | " if prefixed else ""
        self._timestamps: bool = args.timestamps
        self._lines = LinePrefix(b"") if prefixed or args.timestamps else None
        self._tells_unknown = args.timestamps or args.since is not None
        is_timed = prefixed or self._tells_unknown
        self._pieces = LogPieces(self._log, kind, args.since, is_timed=is_timed)
        size = self._log.size()  # what is there now: a task may write faster than we do
        if args.tail is not None:
            size = self._read(lambda: self._pieces.skip_to_tail(args.tail, size))
        self._left: float = math.inf if self._grows else size

    def next(self) -> Piece | None:
        """What is to be printed next; None: nothing has come."""
        piece = self._read(self._pieces.next) if not self.has_ended and self._left > 0 else None
        if piece is not None:
            self._left -= len(piece[1])
        elif not self._grows:
            self.end()
        return piece

    def print(self, piece: Piece) -> None:
        """Print what `next` gave."""
        moment, data = piece
        if moment is None and self._tells_unknown:
            say(f"{self.task}: it is not known when some or all of its lines were written")
            self._tells_unknown = False
        if self._lines:
            stamp = f"{_timestamp(moment)} " if self._timestamps else ""
            self._lines.prefix = f"{self._prefix}{stamp}".encode()
            data = self._lines.feed(data)
        write_bytes(data)

    def end(self) -> None:
        """The end of the log: a line without newline is printed too."""
        if self._lines and not self.has_ended:
            write_bytes(self._lines.flush())
        self._log.close()
        self.has_ended = True

    def _read(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except OSError as error:
            raise NotThere(f"{self._log.name} cannot be read: {error.strerror}") from None


class _Merger:
    """Prints logs in the order of their times, as far as they have been written."""

    def __init__(self, logs: Sequence[_Log]) -> None:
        self._logs = logs
        self._next: list[tuple[float, int, Piece]] = []  # of each log one at most, with its number

    def print_new(self, most: float = math.inf) -> bool:
        """Print what is new, about so many bytes of it; whether that was all."""
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
    """Print the logs, and what comes until their tasks have ended."""
    left = list(logs)
    while left:
        # Looked at first: what has ended by now writes nothing more.
        over = _over(reader.run(), {log.task for log in left})
        is_all = merger.print_new(_MOST_A_TURN)
        for log in left if is_all else ():
            if log.task in over:
                log.end()
        left = [log for log in left if not log.has_ended]
        flush()
        if left and is_all:
            time.sleep(_POLL)


def _over(run: Run | Unreadable, tasks: set[str]) -> set[str]:
    """Those of the tasks that will write nothing more."""
    if isinstance(run, Unreadable) or run.over:
        return tasks
    return {task.name for task in run.tasks if task.over}


def _timestamp(moment: float | None) -> str:
    """To the millisecond; a dash where it is not known."""
    if moment is None:
        return "-"
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}")
    return int(text)


def _moment(text: str) -> float:
    """The time, in seconds since 1970; without a zone it is a local one."""
    span = seconds(text)
    if span is not None:
        return time.time() - span
    try:
        return datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text)).timestamp()
    except (ValueError, OverflowError):
        expected = "a time span such as 10m, or a time such as 2026-01-31T12:00:00Z"
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}") from None
