"""Atomic writes: a file is written aside and renamed, so a crash leaves either the old or the new one."""

import os

from pai_task.regular_file import FLAGS, sole
from pai_task.removal import remove


def write(holder: int, name: str, data: bytes, mode: int, *, sync: bool) -> None:
    """Write a file in the folder `holder` atomically. Raises OSError.

    Without `sync` this survives a crash of the process but not of the machine, and is faster.
    """
    aside = _aside(name)
    try:
        fd = _open_aside(holder, aside, mode)
        try:
            size = len(data)
            while data:
                data = data[os.write(fd, data) :]
            os.ftruncate(fd, size)  # last, to keep what was reserved
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        _replace(holder, aside, name)
    except OSError:
        unreserve(holder, name)
        raise


def reserve(holder: int, name: str, size: int) -> None:
    """Reserve `size` bytes of disk for a later `write`, in case the disk is full by then."""
    try:
        fd = _open_aside(holder, _aside(name), 0o644)
    except OSError:
        return
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        pass
    finally:
        os.close(fd)


def unreserve(holder: int, name: str) -> None:
    """Release disk space that was reserved and not used."""
    try:
        os.unlink(_aside(name), dir_fd=holder)
    except OSError:
        pass


def _aside(name: str) -> str:
    """Return the name under which a file is written before it is renamed."""
    return f".{name}.part"


def _open_aside(holder: int, aside: str, mode: int) -> int:
    """Open the reserved file, or else a new one in the place of whatever is there."""
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS
    try:
        return os.open(aside, new, mode, dir_fd=holder)
    except FileExistsError:
        pass
    try:
        return sole(os.open(aside, os.O_WRONLY | FLAGS, dir_fd=holder), aside)
    except OSError:
        remove(holder, aside)
        return os.open(aside, new, mode, dir_fd=holder)


def _replace(holder: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=holder, dst_dir_fd=holder)
    except IsADirectoryError:
        remove(holder, name)
        os.rename(aside, name, src_dir_fd=holder, dst_dir_fd=holder)
