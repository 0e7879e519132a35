"""Placement of a clone: it appears atomically, and is recognised by a mark."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from pai_runtime.plugin import UserError


class PlaceTaken(UserError):
    """The exception for a folder that a clone cannot replace."""


def holds(folder: Path, identity: str) -> bool:
    """Return whether a folder is a clone that was placed with this identity."""
    try:
        return _mark(folder).read_text("utf-8") == identity
    except (OSError, UnicodeDecodeError):
        return False


def refuse_what_is_there(folder: Path) -> None:
    """Raise `PlaceTaken` unless the folder is missing or empty."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise PlaceTaken(f"clone_dir {folder} is not a directory")
    if folder.samefile(Path.cwd()):
        raise PlaceTaken(f"clone_dir {folder} is the task's working directory; choose a directory below it")
    if any(folder.iterdir()):
        raise PlaceTaken(
            f"clone_dir {folder} is not empty and holds no clone of this repository; empty it or name another"
        )


def place(clone: Path, folder: Path, identity: str) -> bool:
    """Move a clone to its place; return False if an equal one is already there. Raises `PlaceTaken`."""
    _mark(clone).write_text(identity, "utf-8")
    if not holds(folder, identity):
        try:
            refuse_what_is_there(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            _rename(clone, folder)
        except PlaceTaken:
            if not holds(folder, identity):  # else another task of the job was faster
                raise
        except OSError as error:
            if not holds(folder, identity):
                reason = error.strerror or error
                raise PlaceTaken(f"the clone cannot be moved into place at {folder}: {reason}") from None
        else:
            return True
    shutil.rmtree(clone)
    return False


def _rename(clone: Path, folder: Path) -> None:
    """Rename a folder; across file systems, by a copy beside the target."""
    try:
        clone.rename(folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        copy = beside / folder.name
        shutil.copytree(clone, copy, symlinks=True)
        copy.rename(folder)
    finally:
        shutil.rmtree(beside)
    shutil.rmtree(clone)


def _mark(folder: Path) -> Path:
    """Return the path of the mark in git's own folder, where no checkout sees it."""
    own = folder / ".git"
    return (own if own.is_dir() else folder) / "pai-clone.json"
