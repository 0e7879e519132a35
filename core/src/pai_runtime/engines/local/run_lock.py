"""Whether the engine of a run lives: while it does, it holds a lock on the folder of the run."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pai_runtime.task.folder import Folder


@contextlib.contextmanager
def run_lock(folder: Folder, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock; raises `BlockingIOError` if not to `wait` for it."""
    fd = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system without locks; those who look see less
        yield
    finally:
        os.close(fd)


def is_unlocked(folder: Path) -> bool:
    """Whether nobody holds it; False if that cannot be found out."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def lock_holder(folder: Path) -> int | None:
    """The process that holds it, as the kernel says: nothing in the folder does, where tasks may write."""
    found = folder.stat()
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in Path("/proc/locks").read_text("ascii").splitlines():
        _, kind, _, _, pid, locked, *_ = line.replace(" -> ", " ").split()
        if kind == "FLOCK" and locked == wanted and int(pid) > 0:
            return int(pid)
    return None
