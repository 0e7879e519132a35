"""The engine of this machine: tasks are its processes."""

from pathlib import Path

from pai_runtime.engines.local.reader import LocalRunReader


def open_run(folder: Path) -> LocalRunReader:
    """The run in `folder`; see `pai_runtime.engines.engine.Engine`."""
    return LocalRunReader(folder)
