"""How a run is shown to the user who started it."""

import sys
import time

from pai_runtime.document.printable import printable
from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import Run
from pai_runtime.task.console import Console
from pai_runtime.terminal.block import can_redraw
from pai_runtime.terminal.live_view import LiveView
from pai_runtime.terminal.news import Announcements, LongSteps

_LOOK_EVERY = 1.0


def choose_view(reader: RunReader, *, plain: bool) -> "LiveView | PlainView":
    """The view of a running job: live, if standard output is a capable terminal."""
    live = not plain and can_redraw() and sys.stderr.isatty()
    return LiveView(reader) if live else PlainView(reader)


class PlainView:
    """Messages, line by line, on standard error; the tasks write their output themselves."""

    shows_output = False

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._console = Console(2, b"")
        self._announcements = Announcements(reader)
        self._long_steps = LongSteps()
        self._look_at = 0.0

    def say(self, text: str) -> None:
        """Print a message of the runtime's own."""
        self._console.write(f"pai-runtime: {printable(text)}\n".encode())

    def show(self, run: Run) -> None:
        """Say which task is held, and what takes long."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_EVERY
        activities = activity(self._reader, run)
        for text in (
            *self._announcements.of(run, activities),
            *self._long_steps.of(run, activities, time.time()),
        ):
            self.say(text)

    def end(self) -> None:
        """All has been said."""
