"""Opening regular files, and refusing anything else."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""With these, opening follows no link and waits for nobody."""

_PART = 64 * 1024


def regular(fd: int, name: str) -> int:
    """The descriptor, if it is of a regular file; raises OSError, and closes it, if not."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def sole(fd: int, name: str) -> int:
    """As `regular`, and without other hard links: what is written to the file would be written to those."""
    if os.fstat(regular(fd, name)).st_nlink > 1:
        os.close(fd)
        raise OSError(errno.EMLINK, "has other hard links", name)
    return fd


def read_and_close(fd: int, most: int) -> bytes:
    """What is in a file, up to `most` bytes. A buffer for all of these would take longer than most files."""
    parts = []
    try:
        while most > 0 and (part := os.read(fd, min(most, _PART))):
            parts.append(part)
            most -= len(part)
    finally:
        os.close(fd)
    return b"".join(parts)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes, at once; raises OSError, also for what is no regular file.

    It may be a link: this is for files that an installer has left, not for what a task can write.
    """
    return os.fdopen(regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), str(path)), "rb")
