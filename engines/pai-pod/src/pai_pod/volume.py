"""The pod volume: removal of an earlier execution's files, and permissions for the task's user.

Nothing is followed: whatever ran in the pod before may have left links.
"""

import contextlib
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from pai_task.folder import MOST_LEVELS, Folder

_Path = tuple[str, ...]
_OCTAL = re.compile(r"\\([0-7]{3})")
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_WRITE, _EXECUTE = 0o666, 0o111


def remove_leftovers(folder: Folder, kept: Collection[str] = ()) -> None:
    """Empty a directory, except for what is `kept`, mounts, and their parents. Raises OSError."""
    _empty(folder, [*(Path(name).parts for name in kept), *_mounts_below(folder)])


def keep_from_others(folder: Folder) -> None:
    """Set the sticky bit of a directory of ours, so that only owners can rename or remove its entries."""
    status = os.fstat(folder.fd)
    if status.st_uid == os.geteuid() and status.st_mode & stat.S_IWOTH:
        Path(folder.descriptor).chmod(stat.S_IMODE(status.st_mode) | stat.S_ISVTX)


def open_to_all(folder: Folder, levels: int = MOST_LEVELS) -> None:
    """Allow every user to read, write and enter a directory and its content. Raises OSError.

    Files of other owners stay unchanged, and so do files with other hard links.
    """
    _allow(folder.descriptor, 0o777)
    for name in _names(folder) if levels else ():
        status = folder.stat(name)
        if stat.S_ISDIR(status.st_mode):
            with folder.folder(name) as inner:
                open_to_all(inner, levels - 1)
        elif stat.S_ISFIFO(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            fd = os.open(name, _HANDLE, dir_fd=folder.fd)
            try:
                can_run = os.fstat(fd).st_mode & _EXECUTE
                _allow(f"/proc/self/fd/{fd}", _READ_WRITE | (_EXECUTE if can_run else 0))
            finally:
                os.close(fd)


def _names(folder: Folder) -> list[str]:
    try:
        return folder.names()
    except PermissionError:  # somebody else's
        return []


def _allow(descriptor: str, mode: int) -> None:
    path = Path(descriptor)
    found = stat.S_IMODE(path.stat().st_mode)
    if found & mode != mode:
        with contextlib.suppress(PermissionError):
            path.chmod(found | mode)


def _empty(folder: Folder, kept: list[_Path]) -> None:
    for name in folder.names():
        below = [path[1:] for path in kept if path[0] == name]
        if not below:
            folder.remove(name)
        elif () not in below:
            with folder.folder(name) as inner:
                _empty(inner, below)


def _mounts_below(folder: Folder) -> list[_Path]:
    """Return the mount points below a directory, as relative paths."""
    own = Path(folder.descriptor).readlink()
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        point = Path(os.fsdecode(line.split()[4]))
        point = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), str(point)))
        if point != own and point.is_relative_to(own):
            found.append(point.relative_to(own).parts)
    return found
