"""``pai-runtime logs``: the logs of a run's tasks."""

import argparse
import resource
import time
from collections.abc import Sequence

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.arguments import add_run, task_name
from pai_runtime.cli.given_run import NotThere, given_run, given_task
from pai_runtime.runs.reader import LogName, LogReader, RunReader
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.task.console import LinePrefix
from pai_runtime.terminal.output import flush, say, write_bytes

_PIECE = 65536
_MOST_A_TURN = 1024 * 1024
_POLL = 0.25


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


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such run or task."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a job may have many tasks
    log: LogName = "runtime" if args.runtime else "user"
    try:
        reader, run = given_run(args.run)
        tasks = run.tasks if args.task is None else (given_task(reader.folder, run, args.task),)
        prefixed = args.task is None and len(tasks) > 1
        printers = [_Printer(task.name, reader.log(task, log), prefixed=prefixed) for task in tasks]
        if args.follow:
            _follow(reader, printers)
        else:
            for printer in printers:
                printer.print_new(printer.log.size())  # what is there now: a task may write faster than we do
                printer.end()
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    return 0


class _Printer:
    """Prints the log of one task, as it is or as lines behind the task's name."""

    def __init__(self, task: str, log: LogReader, *, prefixed: bool) -> None:
        self.task = task
        self.log = log
        self._lines = LinePrefix(f"{task} | ".encode()) if prefixed else None

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
            return self.log.read(_PIECE)
        except OSError as error:
            raise NotThere(f"{self.log.name} cannot be read: {error.strerror}") from None

    def end(self) -> None:
        """The end of the log: a line without newline is printed too."""
        if self._lines:
            write_bytes(self._lines.flush())
        self.log.close()


def _follow(reader: RunReader, printers: Sequence[_Printer]) -> None:
    """Print the logs, in turns, and what comes until their tasks have ended."""
    left = list(printers)
    while left:
        # Looked at first: what has ended by now writes nothing more.
        over = _over(reader.run(), {printer.task for printer in left})
        new = {printer.task for printer in left if not printer.print_new(_MOST_A_TURN)}
        for printer in [printer for printer in left if printer.task in over - new]:
            printer.end()
            left.remove(printer)
        flush()
        if left and not new:
            time.sleep(_POLL)


def _over(run: Run | Unreadable, tasks: set[str]) -> set[str]:
    """Those of the tasks that will write nothing more."""
    if isinstance(run, Unreadable) or run.over:
        return tasks
    return {task.name for task in run.tasks if task.over}
