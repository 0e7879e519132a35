"""What the tasks of a run write, out of their logs, while it lasts."""

import errno
from collections.abc import Iterator, Mapping
from resource import RLIMIT_NOFILE, getrlimit

from pai_runtime.runs.reader import LogReader, RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.task.console import LinePrefix
from pai_runtime.terminal.words import command_for, some

_BYTES_A_TIME = 1024 * 1024
_MOST_TOLD = 10


class _Output:
    """The output of one task; as whole lines if there are `lines`, which put their prefix before each."""

    def __init__(self, log: LogReader, lines: LinePrefix | None) -> None:
        self._log = log
        self._lines = lines
        self._complete = False
        self._error: OSError | None = None

    @property
    def why_missing(self) -> str:
        """Why some of it cannot be read (at present); empty if all of it can."""
        return self._error.strerror or str(self._error) if self._error else ""

    def new(self, task: RunTask, most: int) -> tuple[bytes, int]:
        """What is to be shown now, and of how many bytes of the log it is."""
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
        """A last line without a newline."""
        return self._lines.flush() if self._lines else b""

    def close(self) -> None:
        self._log.close()


class TaskOutput:
    """The output of all tasks of a run, unless they are too many to read it of all at once.

    With `prefixed`, lines begin with the names of their tasks, if there are several, and the output of a
    single task comes as it is; without, it comes in whole lines.
    """

    def __init__(self, reader: RunReader, *, prefixed: bool) -> None:
        self._reader = reader
        self._prefixed = prefixed
        self._outputs: dict[str, _Output] = {}
        self._told: set[str] = set()
        self.size = 0
        """Bytes of logs that the last call of `new` has read."""

    def too_many(self, run: Run) -> str | None:
        """How to see the output of so many tasks, if it is not shown; the engine needs files too."""
        many = len(run.tasks)
        if many <= getrlimit(RLIMIT_NOFILE)[0] // 2:
            return None
        logs = command_for(self._reader, "logs", "-f")
        return f"the output of {many} tasks is not shown here; to see it: {logs}"

    def new(self, run: Run) -> Iterator[tuple[RunTask, bytes]]:
        """What is new of each task."""
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
        """That output cannot be read, once for each task that this is so of, but not without end."""
        missing = {name: why for name, why in self._missing().items() if name not in self._told}
        if missing and len(self._told) < _MOST_TOLD:
            self._told |= missing.keys()
            yield _cannot_be_read(missing)

    def missing(self) -> str:
        """Of which tasks some output could not be read, and why; empty if all was."""
        missing = self._missing()
        return f"  {_cannot_be_read(missing)}" if missing else ""

    def _missing(self) -> dict[str, str]:
        return {name: each.why_missing for name, each in self._outputs.items() if each.why_missing}

    def rest(self, run: Run) -> Iterator[tuple[RunTask, bytes]]:
        """Last lines without newlines, once nothing more will come."""
        for task in run.tasks:
            if task.name in self._outputs and (data := self._outputs[task.name].rest()):
                yield task, data

    def close(self) -> None:
        """Nothing more will be read."""
        for output in self._outputs.values():
            output.close()


def _cannot_be_read(missing: Mapping[str, str]) -> str:
    """With the reason of the first one, as each of them may name its own pod."""
    why = next(iter(missing.values()))
    return f"the output of {some(list(missing))} cannot be read, and is not shown here: {why}"
