"""The view of a run for the user who started it."""

import os
import sys
import time
from collections.abc import Iterable

from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.block import can_redraw
from pai_runtime.terminal.news import Announcements, LongSteps, Notes
from pai_runtime.terminal.task_output import TaskOutput
from pai_runtime.terminal.text import message
from pai_task.console import Console

_LOOK_EVERY = 1.0


def can_be_live() -> bool:
    """Return whether the terminal is capable of the live view."""
    return can_redraw() and sys.stderr.isatty()


def _columns() -> int | None:
    """Return the width of the terminal that standard error is; None if it is none, or unknown."""
    try:
        return os.get_terminal_size(2).columns or None
    except OSError:
        return None


def _is_one_file(one: int, other: int) -> bool:
    """Return whether two descriptors lead to the same terminal, pipe or file."""
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


class PlainView:
    """A view of plain lines: messages on standard error, the tasks' output on standard output.

    With `shows_output`, that output is read from their logs; else they write it themselves.
    """

    def __init__(self, reader: RunReader, *, shows_output: bool = False) -> None:
        self._shows_output = shows_output
        self._reader = reader
        self._console = Console(2, b"")
        self._stdout = Console(1, b"")
        self._output = TaskOutput(reader, prefixed=True)
        self._announcements = Announcements(reader)
        self._notes = Notes()
        self._long_steps = LongSteps()
        self._look_at = 0.0
        self._run: Run | None = None
        self._is_open = False
        """Whether the output that this view has printed ends within a line."""
        self._size = 0
        """The size of the task's output after which the last message stands."""

    def say(self, text: str) -> None:
        """Print a message of the runtime."""
        self._write(message([text]))

    def tell(self, lines: Iterable[str]) -> None:
        """Print a message of several lines, wrapped if it goes to a terminal."""
        self._write(message(lines, _columns()))

    def show(self, run: Run) -> None:
        """Print new output, and say which tasks are held or wait, and what takes long."""
        if self._shows_output:
            if self._run is None and (hint := self._output.too_many(run)):
                self.say(hint)
            self._print_new(run)
        self._run = run
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_EVERY
        activities = activity(self._reader, run)
        for text in (
            *self._announcements.of(run, activities),
            *self._notes.of(run),
            *self._long_steps.of(run, activities, time.time()),
        ):
            self.say(text)

    def end(self) -> None:
        """Print the rest of the output."""
        if self._shows_output and self._run is not None:
            self._print_new(self._run)
            while self._output.size and self._run.over:  # what goes on may write for ever
                self._print_new(self._run)
            self._print(self._output.rest(self._run))
            self._output.close()

    def missing_output(self) -> str:
        """Return which tasks' output could not be shown in full, and why; empty if all was shown."""
        return self._output.missing()

    def _write(self, lines: Iterable[str]) -> None:
        broken = "\n" if self._is_line_unfinished() else ""
        self._console.write((broken + "".join(f"{line}\n" for line in lines)).encode())

    def _is_line_unfinished(self) -> bool:
        """Return whether a message would stand in a line of output, which is so for one task alone."""
        if self._run is None or len(self._run.tasks) != 1 or not _is_one_file(1, 2):
            return False
        if self._shows_output:
            is_open, self._is_open = self._is_open, False
            return is_open
        log = self._reader.log(self._run.tasks[0], "user")
        try:
            before, self._size = self._size, log.size()
            return self._size != before and log.tail(1) not in (b"", b"\n")
        except OSError:
            return False
        finally:
            log.close()

    def _print_new(self, run: Run) -> None:
        self._print(self._output.new(run))
        for text in self._output.news():
            self.say(text)

    def _print(self, output: Iterable[tuple[RunTask, bytes]]) -> None:
        for _, data in output:
            self._stdout.write(data)
            self._is_open = not data.endswith(b"\n")
