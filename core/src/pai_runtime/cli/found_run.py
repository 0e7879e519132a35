"""The run in a directory, as far as it can be read."""

from dataclasses import dataclass
from pathlib import Path

from pai_runtime.engines.engine import open_run
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable


@dataclass(frozen=True)
class FoundRun:
    """The directory of a run, the run, and its reader; None where its engine cannot be told."""

    folder: Path
    run: Run | Unreadable
    reader: RunReader | None

    @property
    def state(self) -> str:
        """How it is, in a word."""
        return self.run.state if isinstance(self.run, Run) else "unreadable"


def find_run(folder: Path) -> FoundRun:
    """The run in a directory, which need not be that of one."""
    reader = open_run(folder)
    if isinstance(reader, Unreadable):
        return FoundRun(folder, reader, None)
    return FoundRun(folder, reader.run(), reader)
