"""The live view: the output of the tasks scrolls above the status of the run.

It is not rich's. There a frame of 100 tasks takes 31 ms of CPU time, ten times a second, and here 0.2 ms (the
import 35 ms, and 3 ms); and `rich.live` hides the cursor, which a runtime that is killed would leave hidden,
where this never changes how the terminal is set.
"""

import os
import time
from collections.abc import Iterable, Sequence

from pai_document.printable import printable
from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.block import Block
from pai_runtime.terminal.live_frame import frame
from pai_runtime.terminal.news import Announcements, Notes
from pai_runtime.terminal.task_output import TaskOutput
from pai_runtime.terminal.text import message, shown_line
from pai_runtime.terminal.words import command_for

_DRAW_EVERY = 0.1
_MOST_AT_END = 16 * 1024 * 1024
"""Maximum bytes of remaining output printed after the run has ended; more would take a terminal too long."""


class LiveView:
    """A view with the status as a block at the end of the terminal, above which the tasks' output scrolls."""

    def __init__(self, reader: RunReader, terminal: int = 1) -> None:
        self._reader = reader
        self._block = Block(terminal)
        self._colours = not os.environ.get("NO_COLOR")
        self._announcements = Announcements(reader)
        self._notes = Notes()
        self._said: list[str] = []
        self._run: Run | None = None
        self._output = TaskOutput(reader, prefixed=False)
        self._size = self._block.size()
        self._draw_at = 0.0

    def say(self, text: str) -> None:
        """Print a message above the block; while the run lasts, together with the next update."""
        self._said.append(text)
        if self._run is None:
            self._draw([])

    def tell(self, lines: Iterable[str]) -> None:
        """Print a message of several lines, after the run has ended."""
        self._block.draw(message(lines, self._block.size()[0]), ())

    def show(self, run: Run) -> None:
        """Show the state of the run and new output of the tasks, at most every `_DRAW_EVERY` seconds."""
        self._run = run
        if time.monotonic() < self._draw_at:
            return
        self._draw_at = time.monotonic() + _DRAW_EVERY
        size = self._block.size()
        if size == self._size:
            self._update(run)
        self._size = size  # while the window is dragged, each block would be left behind, wrapped anew

    def end(self) -> None:
        """Show the rest of the output, and the final state of the run."""
        run, left = self._run, _MOST_AT_END
        if run is None:
            return
        while left > 0 and (shown := self._update(run)):
            left -= shown
        if left <= 0:
            self.say(f"not all output is shown; to see all of it: {command_for(self._reader, 'logs')}")
        self._size = self._block.size()
        self._update(run, self._shown(run, self._output.rest(run)))
        self._run = None
        self._block.leave()
        self._output.close()

    def missing_output(self) -> str:
        """Return which tasks' output could not be shown in full, and why; empty if all was shown."""
        return self._output.missing()

    def _update(self, run: Run, rest: Sequence[str] = ()) -> int:
        """Draw the new output and the block; return the number of bytes of output read."""
        lines = self._new_output(run)
        activities = activity(self._reader, run)
        self._said += (*self._announcements.of(run, activities), *self._notes.of(run))
        block = frame(self._reader, run, activities, self._size, colours=self._colours)
        self._draw([*lines, *rest], block)
        return self._output.size

    def _new_output(self, run: Run) -> list[str]:
        if not self._block.lines and (hint := self._output.too_many(run)):
            self._said.append(hint)
        lines = self._shown(run, self._output.new(run))
        self._said += self._output.news()
        return lines

    def _shown(self, run: Run, output: Iterable[tuple[RunTask, bytes]]) -> list[str]:
        return [
            (f"{task.name} | " if len(run.tasks) > 1 else "") + shown_line(line, colours=True)
            for task, data in output
            for line in data.split(b"\n")[:-1]
        ]

    def _draw(self, lines: list[str], block: Sequence[str] = ()) -> None:
        said, self._said = self._said, []
        above = [*lines, *(f"pai-runtime: {printable(text)}" for text in said)]
        self._block.draw(above, block)
