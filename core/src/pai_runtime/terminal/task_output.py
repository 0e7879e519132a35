"""The output of the tasks of a run while it lasts, read from their logs."""

import errno
from collections.abc import Iterator, Mapping
from resource import RLIMIT_NOFILE, getrlimit

from pai_runtime.runs.reader import LogReader, RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.text import some
from pai_runtime.terminal.words import command_for
from pai_task.console import LinePrefix

_BYTES_A_TIME = 1024 * 1024
_MOST_TOLD = 10


class _Output:
    """The output of one task, as whole lines with a prefix if there are `lines`."""

    def __init__(self, log: LogReader, lines: LinePrefix | None) -> None:
        self._log = log
        self._lines = lines
        self._complete = False
        self._error: OSError | None = None

    @property
    def why_missing(self) -> str:
        """The reason why output is missing, for now or for good; empty if none is."""
        return self._error.strerror or str(self._error) if self._error else ""

    def new(self, task: RunTask, most: int) -> tuple[bytes, int]:
        """Return what is to be shown now, and the number of bytes of the log that were read for it."""
        # From a cluster more may come once the task has ended: the rest of it, or that of another attempt.
        if self._complete and task.over and self._log.is_at_end():
            return b"", 0
        try:
            data = self._log.read(most)
        except OSError as error:
            self._error, data = error, b""
        else:
            if self._error is not None and self._error.errno == errno.EAGAIN:
                self._error = None
        self._complete = task.over and not data and self._log.is_at_end()
        if self._lines is None:
            return data, len(data)
        return self._lines.flush() if self._complete else self._lines.feed(data), len(data)

    def rest(self) -> bytes:
        """Return a last line that has no newline."""
        return self._lines.flush() if self._lines else b""

    def close(self) -> None:
        self._log.close()


class TaskOutput:
    """The output of all tasks of a run, unless they are too many to read at once.

    With `prefixed`, lines start with the names of their tasks if there are several, and the output of a
    single task is unchanged; without, it comes in whole lines.
    """

    def __init__(self, reader: RunReader, *, prefixed: bool) -> None:
        self._reader = reader
        self._prefixed = prefixed
        self._outputs: dict[str, _Output] = {}
        self._told: set[str] = set()
        self.size = 0
        """Bytes of logs that the last call of `new` has read."""

    def too_many(self, run: Run) -> str | None:
        """Return how to see the output if the tasks are too many for it to be shown; None if they are not."""
        many = len(run.tasks)
        if many <= getrlimit(RLIMIT_NOFILE)[0] // 2:
            return None
        logs = command_for(self._reader, "logs", "-f")
        return f"the output of {many} tasks is not shown here; to see it: {logs}"

    def new(self, run: Run) -> Iterator[tuple[RunTask, bytes]]:
        """Yield each task that has new output, with that output."""
        self.size = 0
        if self.too_many(run):
            return
        several = len(run.tasks) > 1
        for task in run.tasks:
            if task.name not in self._outputs:
                prefix = f"{task.name} | ".encode() if self._prefixed else b""
                lines = LinePrefix(prefix) if several or not self._prefixed else None
                self._outputs[task.name] = _Output(self._reader.log(task, "user"), lines)
            data, read = self._outputs[task.name].new(task, _BYTES_A_TIME // len(run.tasks))
            self.size += read
            if data:
                yield task, data

    def news(self) -> Iterator[str]:
        """Yield a line about each task whose output cannot be read, once, and not for too many."""
        missing = {name: why for name, why in self._missing().items() if name not in self._told}
        if missing and len(self._told) < _MOST_TOLD:
            self._told |= missing.keys()
            yield _cannot_be_read(missing)

    def missing(self) -> str:
        """Return which tasks' output could not be read in full, and why; empty if all was read."""
        missing = self._missing()
        return f"  {_cannot_be_read(missing)}" if missing else ""

    def _missing(self) -> dict[str, str]:
        return {name: each.why_missing for name, each in self._outputs.items() if each.why_missing}

    def rest(self, run: Run) -> Iterator[tuple[RunTask, bytes]]:
        """Yield each task that has a last line without a newline, with that line."""
        for task in run.tasks:
            if task.name in self._outputs and (data := self._outputs[task.name].rest()):
                yield task, data

    def close(self) -> None:
        """Close all logs."""
        for output in self._outputs.values():
            output.close()


def _cannot_be_read(missing: Mapping[str, str]) -> str:
    """Return a message about several tasks with the reason of the first, since each may name its own pod."""
    why = next(iter(missing.values()))
    return f"the output of {some(list(missing))} cannot be read, and is not shown here: {why}"
