"""Private copies of directories that another user has left accessible to all.

ssh refuses keys that others can read.
"""

from __future__ import annotations

import os
import stat

from pai_task.folder import MOST_LEVELS, Folder

_MOST_BYTES = 64 * 1024 * 1024


def make_own(folder: Folder, name: str) -> None:
    """Replace a directory by a copy that is ours, and accessible to its owner only. Raises OSError.

    Sockets and other special files are left out.
    """
    aside = f".{name}.own"
    folder.remove(aside)
    os.mkdir(aside, 0o700, dir_fd=folder.fd)
    with folder.folder(name) as theirs, folder.folder(aside) as ours:
        _copy(theirs, ours, MOST_LEVELS)
    folder.remove(name)
    folder.move(aside, folder, name)


def _copy(theirs: Folder, ours: Folder, levels: int) -> None:
    for name in theirs.names() if levels else ():
        status = theirs.stat(name)
        if stat.S_ISDIR(status.st_mode):
            os.mkdir(name, 0o700, dir_fd=ours.fd)
            with theirs.folder(name) as their_inner, ours.folder(name) as our_inner:
                _copy(their_inner, our_inner, levels - 1)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=theirs.fd), name, dir_fd=ours.fd)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(theirs, ours, name, 0o700 if status.st_mode & 0o111 else 0o600)


def _copy_file(theirs: Folder, ours: Folder, name: str, mode: int) -> None:
    data = theirs.read(name, _MOST_BYTES)
    with os.fdopen(ours.append(name, mode), "wb") as file:
        file.write(data)
