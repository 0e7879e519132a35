"""How a run is shown to the user who started it."""

import sys
import time
from collections.abc import Iterable

from pai_runtime.document.printable import printable
from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.task.console import Console
from pai_runtime.terminal.block import can_redraw
from pai_runtime.terminal.live_view import LiveView
from pai_runtime.terminal.news import Announcements, LongSteps, Notes
from pai_runtime.terminal.task_output import TaskOutput

_LOOK_EVERY = 1.0


def choose_view(reader: RunReader, *, plain: bool) -> "LiveView | PlainView":
    """The view of a running job: live, if standard output is a capable terminal."""
    live = not plain and can_redraw() and sys.stderr.isatty()
    return LiveView(reader) if live else PlainView(reader)


class PlainView:
    """Messages, line by line, on standard error; on standard output the tasks' output.

    The tasks of a run of this machine write that themselves; of a run on a cluster it comes from their logs.
    """

    def __init__(self, reader: RunReader) -> None:
        self.shows_output = bool(reader.options)
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
        """Print a message of the runtime's own."""
        self._console.write(f"pai-runtime: {printable(text)}\n".encode())

    def show(self, run: Run) -> None:
        """Print what is new of the output, and say which task is held or waits, and what takes long."""
        if self.shows_output:
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
        """Print what is left of the output."""
        if self.shows_output and self._run is not None:
            self._print_new(self._run)
            while self._output.size and self._run.over:  # what goes on may write for ever
                self._print_new(self._run)
            self._print(self._output.rest(self._run))
            self._output.close()

    def missing_output(self) -> str:
        """Of which tasks some output could not be shown, and why; empty if all was."""
        return self._output.missing()

    def _print_new(self, run: Run) -> None:
        self._print(self._output.new(run))
        for text in self._output.news():
            self.say(text)

    def _print(self, output: Iterable[tuple[RunTask, bytes]]) -> None:
        for _, data in output:
            self._stdout.write(data)
