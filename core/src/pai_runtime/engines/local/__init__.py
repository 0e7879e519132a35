"""The engine of this machine: tasks are its processes. See `pai_runtime.engines.engine.Engine`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pai_runtime.engines.engine import RunRequest
    from pai_runtime.engines.local.engine import LocalRun
    from pai_runtime.engines.local.reader import LocalRunReader
    from pai_runtime.job.model import Job

# What reads a run needs nothing of what makes one, and the other way round.
# ruff: noqa: PLC0415


def new_run(job: "Job", wanted: "RunRequest") -> "LocalRun":
    """A run of a job on this machine."""
    from pai_runtime.engines.local.engine import LocalRun

    return LocalRun(job, wanted)


def open_run(folder: Path) -> "LocalRunReader":
    """The run in `folder`."""
    from pai_runtime.engines.local.reader import LocalRunReader

    return LocalRunReader(folder)
