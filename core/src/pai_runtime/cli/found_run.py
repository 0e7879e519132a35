"""A run that a command has found, as far as it is readable."""

from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable
from pai_task.record import record


@record(frozen=True)
class FoundRun:
    """A run, or why it is unreadable, with its reader."""

    reader: RunReader
    run: Run | Unreadable

    @property
    def state(self) -> str:
        """The state in one word."""
        return self.run.state if isinstance(self.run, Run) else "unreadable"
