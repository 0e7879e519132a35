"""Parents, children and orphans among processes."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Have orphans below this process come to it, as to an init process. Linux before 3.4 does without."""
    if os.getpid() != 1:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Be told to stop when the process `parent`, which has started us, is gone, however it went."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was gone before the kernel knew
        os.kill(os.getpid(), signal.SIGTERM)


def kill_children(but: Collection[int] = ()) -> int:
    """Kill the living children of this process, with some left out; how many there were."""
    children = [pid for pid in _children_of(os.getpid()) if pid not in but]
    for pid in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(children)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _children_of(parent: int) -> list[int]:
    """The processes whose parent is `parent`, dead ones that nobody has reaped left out."""
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                state, ppid = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
                if int(ppid) == parent and state != "Z":
                    children.append(int(entry.name))
    return children
