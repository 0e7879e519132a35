"""Parents, children and orphans among processes."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Have orphans below this process come to it, as to an init process. Linux before 3.4 does without."""
    if os.getpid() != 1:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Be sent a signal when the process that has started us is gone, however it went."""
    _prctl(_PR_SET_PDEATHSIG, number)


def keep_to_ourselves() -> None:
    """Let no other process of our user look into this one, and leave no core file: it has secrets."""
    _prctl(_PR_SET_DUMPABLE, 0)


def kill_children(but: Collection[int] = ()) -> int:
    """Kill the living children of this process, with some left out; how many there were."""
    children = [pid for pid in _children_of(os.getpid()) if pid not in but]
    for pid in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(children)


def kill_all_others() -> bool:
    """Kill all other processes, as the first one of a container or a namespace; whether there were any."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


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
