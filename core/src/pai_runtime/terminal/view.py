"""How a run is shown to the person who started it."""

import os
import sys
import time
from pathlib import Path
from typing import Protocol

from pai_runtime.document.printable import printable
from pai_runtime.runs.state import Run, read_activity
from pai_runtime.task.console import Console
from pai_runtime.terminal.live_view import LiveView
from pai_runtime.terminal.news import Announcements, LongSteps

_LOOK_EVERY = 1.0


class View(Protocol):
    """What an engine tells of a run. `say` may be called at any time, also by the handler of a signal."""

    shows_output: bool
    """Whether it shows the output of the tasks, out of their logs: the tasks then write it nowhere else."""

    def say(self, text: str) -> None:
        """Show a message of the runtime's own."""

    def show(self, run: Run) -> None:
        """Show how the run is now; to be called at each change, and four times a second."""

    def end(self) -> None:
        """Show how it was at last."""


def choose_view(folder: Path, *, plain: bool) -> View:
    """The view of the run in `folder`: live, if a person looks at a terminal that can show it."""
    terminal = sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return LiveView(folder) if terminal and not plain else PlainView(folder)


class PlainView:
    """Messages, line by line, on standard error; the tasks write their output themselves."""

    shows_output = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._console = Console(2, b"")
        self._announcements = Announcements()
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
        doing = read_activity(self._folder, run)
        for text in (*self._announcements.of(run, doing), *self._long_steps.of(run, doing, time.time())):
            self.say(text)

    def end(self) -> None:
        """All has been said."""
