"""The run in a directory, as far as it is readable."""

from dataclasses import dataclass
from pathlib import Path

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable


@dataclass(frozen=True)
class FoundRun:
    """A run, or why it is unreadable, with its reader."""

    reader: RunReader
    run: Run | Unreadable

    @property
    def state(self) -> str:
        """The state in one word."""
        return self.run.state if isinstance(self.run, Run) else "unreadable"


def find_run(folder: Path) -> FoundRun:
    """Return the run in a directory, whether there is one or not."""
    reader = LocalRunReader(folder)
    return FoundRun(reader, reader.run())
