"""The live view: the output of the tasks scrolls above the status of the run.

It is not rich's. There a frame of 100 tasks takes 31 ms of CPU time, ten times a second, and here 0.2 ms (the
import 35 ms, and 3 ms); and `rich.live` hides the cursor, which a runtime that is killed would leave hidden,
where this never changes how the terminal is set.
"""

import os
import time
from collections.abc import Sequence
from resource import RLIMIT_NOFILE, getrlimit

from pai_runtime.document.printable import printable
from pai_runtime.runs.reader import LogReader, RunReader, activity
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.task.console import LinePrefix
from pai_runtime.terminal.block import Block
from pai_runtime.terminal.live_frame import frame
from pai_runtime.terminal.news import Announcements
from pai_runtime.terminal.text import shown_line
from pai_runtime.terminal.words import command_for

_DRAW_EVERY = 0.1
_BYTES_A_TIME = 1024 * 1024
_MOST_AT_END = 16 * 1024 * 1024
"""Of output that is not shown yet when the run has ended; a terminal would be busy with more for too long."""


class _Output:
    """The output of one task, as lines behind a prefix."""

    def __init__(self, log: LogReader, prefix: str) -> None:
        self._log = log
        self._lines = LinePrefix(b"")
        self._prefix = prefix
        self._complete = False

    def lines(self, task: RunTask, most: int) -> tuple[list[str], int]:
        """The lines that are new, and of how many bytes of the log they are."""
        if self._complete and task.over:
            return [], 0
        try:
            data = self._log.read(most)
        except OSError:
            data = b""
        self._complete = task.over and not data
        whole = self._lines.flush() if self._complete else self._lines.feed(data)
        lines = whole.split(b"\n")[:-1]
        return [self._prefix + shown_line(line, colours=True) for line in lines], len(data)

    def close(self) -> None:
        self._log.close()


class LiveView:
    """The status as a block at the end of the terminal, above which the output of the tasks scrolls."""

    shows_output = True

    def __init__(self, reader: RunReader, terminal: int = 1) -> None:
        self._reader = reader
        self._block = Block(terminal)
        self._colours = not os.environ.get("NO_COLOR")
        self._announcements = Announcements(reader)
        self._said: list[str] = []
        self._run: Run | None = None
        self._outputs: dict[str, _Output] = {}
        self._size = self._block.size()
        self._draw_at = 0.0

    def say(self, text: str) -> None:
        """Print a message above the block; while the run lasts, with the next thing that is shown."""
        self._said.append(text)
        if self._run is None:
            self._draw([])

    def show(self, run: Run) -> None:
        """Show the state of the run and the tasks' new output; not more often than people can read."""
        self._run = run
        if time.monotonic() < self._draw_at:
            return
        self._draw_at = time.monotonic() + _DRAW_EVERY
        size = self._block.size()
        if size == self._size:
            self._update(run)
        self._size = size  # while the window is dragged, each block would be left behind, wrapped anew

    def end(self) -> None:
        """Show all that the tasks have written, and how the run was at last."""
        run, left = self._run, _MOST_AT_END
        if run is None:
            return
        while left > 0 and (shown := self._update(run)):
            left -= shown
        if left <= 0:
            self.say(f"not all output is shown; to see all of it: {command_for(self._reader, 'logs')}")
        self._size = self._block.size()
        self._update(run)
        self._run = None
        self._block.leave()
        for output in self._outputs.values():
            output.close()

    def _update(self, run: Run) -> int:
        """Draw what is new, and the block; of how many bytes of output that was."""
        lines, size = self._new_output(run)
        activities = activity(self._reader, run)
        self._said += self._announcements.of(run, activities)
        self._draw(lines, frame(self._reader, run, activities, self._size, colours=self._colours))
        return size

    def _new_output(self, run: Run) -> tuple[list[str], int]:
        lines: list[str] = []
        size = 0
        if self._too_many(run):
            return lines, size
        for task in run.tasks:
            if task.name not in self._outputs:
                prefix = f"{task.name} | " if len(run.tasks) > 1 else ""
                self._outputs[task.name] = _Output(self._reader.log(task, "user"), prefix)
            new, read = self._outputs[task.name].lines(task, _BYTES_A_TIME // len(run.tasks))
            lines += new
            size += read
        return lines, size

    def _too_many(self, run: Run) -> bool:
        """Whether the logs of all tasks cannot be open at once, for the engine needs files too."""
        many = len(run.tasks)
        if many <= getrlimit(RLIMIT_NOFILE)[0] // 2:
            return False
        if not self._block.lines:
            logs = command_for(self._reader, "logs", "-f")
            self._said.append(f"the output of {many} tasks is not shown here; to see it: {logs}")
        return True

    def _draw(self, lines: list[str], block: Sequence[str] = ()) -> None:
        said, self._said = self._said, []
        above = [*lines, *(f"pai-runtime: {printable(text)}" for text in said)]
        self._block.draw(above, block)
