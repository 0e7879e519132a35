"""The lock on the directory of a run, which its engine holds as long as it lives.

The file is its owner's alone, since whoever can open a file can lock it.
"""

import fcntl
import os
from pathlib import Path

from pai_runtime.runs.names import LOCK
from pai_task.folder import Folder


def lock(folder: Folder) -> int:
    """Lock the directory of a run; closing the returned descriptor unlocks it.

    Raises `BlockingIOError` if it is locked, OSError if that cannot be tried.
    """
    fd = folder.append(LOCK, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    except OSError:
        pass  # a file system without locks; those who look see less
    if not _is_there(fd, folder):
        os.close(fd)
        raise BlockingIOError
    return fd


def is_unlocked(folder: Path) -> bool:
    """Return whether nobody holds the lock; False if that is unknown."""
    try:
        with Folder.at(folder) as run:
            fd = run.open(LOCK)
    except FileNotFoundError:
        return True
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
    """Return the process that holds the lock, as the kernel says: what is in the folder, tasks may write.

    The kernel names the one that has locked it: that may have ended, and its number be that of any other.
    """
    found = (folder / LOCK).stat(follow_symlinks=False)
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in Path("/proc/locks").read_text("ascii").splitlines():
        _, kind, _, _, pid, locked, *_ = line.replace(" -> ", " ").split()
        if kind == "FLOCK" and locked == wanted and int(pid) > 0 and _has_open(int(pid), found):
            return int(pid)
    return None


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Return whether a process has a file open; True if we may not know, as of an engine with secrets."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as opened:
            return any(_is_same(each, file) for each in opened)
    except PermissionError:
        return True
    except OSError:
        return False


def _is_same(entry: "os.DirEntry[str]", file: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), file)
    except FileNotFoundError:  # it is closed meanwhile
        return False


def _is_there(fd: int, folder: Folder) -> bool:
    """Return whether the lock file is still in place, and was not removed between opening and locking it."""
    try:
        return os.path.samestat(os.fstat(fd), folder.stat(LOCK))
    except FileNotFoundError:
        return False
