"""Removal of runs, for ``rm`` and ``prune``."""

import contextlib
import os
from pathlib import Path

from pai_runtime.cli.found_run import find_run
from pai_runtime.cli.given_run import NotThere
from pai_runtime.runs.errors import CannotRemove, ClusterError
from pai_runtime.runs.names import has_traces, is_among_runs
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.task.folder import Folder
from pai_runtime.terminal.output import say, write_lines
from pai_runtime.terminal.words import short_path

_BLOCK = 512


def remove(folder: Path) -> int:
    """Remove the run in a directory; return its size in bytes. Raises `CannotRemove` or `NotThere`."""
    if folder.is_symlink():
        raise CannotRemove(f"it is a link to {folder.resolve()}; name the directory itself")
    try:
        opened = Folder.at(folder, follow=False)
    except OSError as error:
        raise NotThere(f"{folder} is not the directory of a run: {error.strerror}") from None
    with opened:  # what is checked is what is removed, whatever is given its name meanwhile
        return _remove(folder, Path(opened.descriptor))


def remove_on_cluster(reader: RunReader, on: str) -> bool:
    """Remove a run on a cluster, and report that or why not; return whether it was removed."""
    try:
        reader.remove()
    except (CannotRemove, ClusterError) as error:
        say(f"cannot remove {reader.named}: {error}")
        return False
    write_lines([f"removed {reader.named} on {on}"])
    return True


def _remove(named: Path, folder: Path) -> int:
    found = find_run(folder)
    run, reader = found.run, found.reader
    if isinstance(run, Run) and not run.over:
        raise CannotRemove(f"it is running; stop it first: pai-runtime stop {short_path(named)}")
    if isinstance(run, Unreadable) and not (is_among_runs(folder) and has_traces(folder)):
        raise NotThere(f"{named} is not the directory of a run: {run.reason}; rm -r removes any directory")
    size = _size(folder)
    reader.remove()
    return size


def _size(folder: Path) -> int:
    """Return the size of a directory on disk in bytes, as far as it is readable."""
    left, size, seen = [str(folder)], 0, set()
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    size += status.st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
    return size
