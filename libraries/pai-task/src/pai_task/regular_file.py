"""Opening of regular files, and of nothing else."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags with which opening follows no link and never blocks."""

_PART = 64 * 1024


def regular(fd: int, name: str) -> int:
    """Return a descriptor if it is of a regular file; otherwise close it and raise OSError."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def sole(fd: int, name: str) -> int:
    """Return a descriptor as `regular` does, but refuse a file with other hard links, for safe writing."""
    if os.fstat(regular(fd, name)).st_nlink > 1:
        os.close(fd)
        raise OSError(errno.EMLINK, "has other hard links", name)
    return fd


def read_and_close(fd: int, most: int) -> bytes:
    """Read at most `most` bytes of a file, and close it."""
    parts = []
    try:
        while most > 0 and (part := os.read(fd, min(most, _PART))):
            parts.append(part)
            most -= len(part)
    finally:
        os.close(fd)
    return b"".join(parts)


def read_file(path: str | Path, most: int) -> bytes:
    """Read a file as `open_regular` opens it. Raises OSError, also if it is larger than `most` bytes."""
    with open_regular(path) as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading, without blocking. Raises OSError, also for anything else.

    A link is followed: this is for files that an installer has left, not for what a task can write.
    """
    return os.fdopen(regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), str(path)), "rb")
