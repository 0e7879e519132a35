"""``pai-runtime logs``: what the tasks of a run have written."""

import argparse
import contextlib
import resource
import time
from collections.abc import Sequence
from pathlib import Path

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.arguments import add_run, task_name
from pai_runtime.runs.log_follower import LogFollower
from pai_runtime.runs.state import Run, RunTask, Unreadable, lost, read_run
from pai_runtime.task.console import LinePrefix
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import RUNTIME_LOG, USER_LOG
from pai_runtime.terminal.output import flush, say, write_bytes
from pai_runtime.terminal.words import task_ranges

_PIECE = 65536
_MOST_A_TURN = 1024 * 1024
_POLL = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_run(parser)
    parser.add_argument(
        "task", nargs="?", type=task_name, metavar="ROLE/INDEX", help="one of its tasks (default: all)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the tasks have ended")
    parser.add_argument(
        "--runtime", action="store_true", help="the runtime's own log, with what its callbacks wrote"
    )


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such run or task."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a job may have many tasks
    try:
        tasks = _tasks(args.run, args.task)
        log = RUNTIME_LOG if args.runtime else USER_LOG
        prefixed = args.task is None and len(tasks) > 1
        readers = [_Reader(args.run, log, task, prefixed=prefixed) for task in tasks]
        if args.follow:
            _follow(args.run, readers)
        else:
            for reader in readers:
                reader.print_new(reader.size())  # what is there now: a task may write faster than we do
                reader.end()
    except _NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    return 0


def _tasks(folder: Path, name: tuple[str, int] | None) -> list[RunTask]:
    run = read_run(folder)
    if isinstance(run, Unreadable):
        raise _NotThere(f"{folder} is not the folder of a run: {run.reason}; pai-runtime ps shows the runs")
    tasks = [task for task in run.tasks if name in (None, (task.role, task.index))]
    if not tasks and name is not None:
        raise _NotThere(f"there is no task '{name[0]}/{name[1]}' in {folder}; it has {task_ranges(run)}")
    return tasks


class _NotThere(Exception):
    """What is asked for is not there, or cannot be read."""


class _Reader:
    """Prints the log of one task, as it is or as lines behind the task's name."""

    def __init__(self, run: Path, log: str, task: RunTask, *, prefixed: bool) -> None:
        self.task = task.name
        self._run = run
        self._log = f"{task.name}/{log}"
        self._follower = LogFollower(run, self._log)
        self._lines = LinePrefix(f"{task.name} | ".encode()) if prefixed else None

    def size(self) -> int:
        """How many bytes are kept of the log now."""
        above, _, name = self._log.rpartition("/")
        sizes = []
        with contextlib.suppress(OSError), Folder.at(self._run) as run, run.folder(above) as folder:
            for file in folder.names():
                with contextlib.suppress(OSError):  # it has been rotated away
                    if file.startswith(name):
                        sizes.append(folder.stat(file).st_size)
        return sum(sizes)

    def print_new(self, most: int) -> bool:
        """Print what is new in the log, about so many bytes of it; whether that was all."""
        while most > 0:
            data = self._read()
            if not data:
                return True
            most -= len(data)
            write_bytes(self._lines.feed(data) if self._lines else data)
        return False

    def _read(self) -> bytes:
        try:
            return self._follower.read(_PIECE)
        except OSError as error:
            raise _NotThere(f"{self._run / self._log} cannot be read: {error.strerror}") from None

    def end(self) -> None:
        """The end of the log: a line without newline is printed too."""
        if self._lines:
            write_bytes(self._lines.flush())
        self._follower.close()


def _follow(folder: Path, readers: Sequence[_Reader]) -> None:
    """Print the logs, in turns, and what comes until their tasks have ended."""
    left = list(readers)
    while left:
        # Looked at first: what has ended by now writes nothing more.
        over = _over(folder, read_run(folder), {reader.task for reader in left})
        new = {reader.task for reader in left if not reader.print_new(_MOST_A_TURN)}
        for reader in [reader for reader in left if reader.task in over - new]:
            reader.end()
            left.remove(reader)
        flush()
        if left and not new:
            time.sleep(_POLL)


def _over(folder: Path, run: Run | Unreadable, tasks: set[str]) -> set[str]:
    """Those of the tasks that will write nothing more."""
    if isinstance(run, Unreadable) or run.ended is not None or lost(folder, run):
        return tasks
    return {task.name for task in run.tasks if task.over}
