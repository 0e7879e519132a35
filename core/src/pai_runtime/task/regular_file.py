"""Opening regular files, and refusing anything else."""

import errno
import os
import stat

FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""With these, opening follows no link and waits for nobody."""


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
