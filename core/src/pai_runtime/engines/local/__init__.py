"""The engine of this machine: tasks are its processes."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pai_runtime.engines.local.reader import LocalRunReader


def open_run(folder: Path) -> "LocalRunReader":
    """The run in `folder`; see `pai_runtime.engines.engine.Engine`."""
    from pai_runtime.engines.local.reader import LocalRunReader  # noqa: PLC0415 - a plan's placement needs no runs

    return LocalRunReader(folder)
