"""The run in a directory, as far as it can be read."""

from dataclasses import dataclass
from pathlib import Path

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable


@dataclass(frozen=True)
class FoundRun:
    """A run and its reader."""

    reader: RunReader
    run: Run | Unreadable

    @property
    def state(self) -> str:
        """How it is, in a word."""
        return self.run.state if isinstance(self.run, Run) else "unreadable"


def find_run(folder: Path) -> FoundRun:
    """The run in a directory, which need not be that of one."""
    reader = LocalRunReader(folder)
    return FoundRun(reader, reader.run())
