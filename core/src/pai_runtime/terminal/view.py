"""The view of a run for the user who started it."""

import sys
import time
from collections.abc import Iterable

from pai_runtime.document.printable import printable
from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.task.console import Console
from pai_runtime.terminal.block import can_redraw
from pai_runtime.terminal.news import Announcements, LongSteps, Notes
from pai_runtime.terminal.task_output import TaskOutput

_LOOK_EVERY = 1.0


def can_be_live() -> bool:
    """Return whether the terminal is capable of the live view."""
    return can_redraw() and sys.stderr.isatty()


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

    def say(self, text: str) -> None:
        """Print a message of the runtime."""
        self._console.write(f"pai-runtime: {printable(text)}\n".encode())

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

    def _print_new(self, run: Run) -> None:
        self._print(self._output.new(run))
        for text in self._output.news():
            self.say(text)

    def _print(self, output: Iterable[tuple[RunTask, bytes]]) -> None:
        for _, data in output:
            self._stdout.write(data)
