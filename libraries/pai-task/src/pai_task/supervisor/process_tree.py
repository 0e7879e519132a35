"""System calls about the process tree: subreaper, parent-death signal, children."""

from __future__ import annotations

import os

from pai_task.own_process import prctl
from pai_task.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36

GONE_EVERY = 0.01
GONE_WITHIN = 10.0
"""Seconds between two checks for what a killed supervisor has left, and the timeout for it."""

_MOST_READ = 1 << 14


def adopt_orphans() -> None:
    """Make this process the subreaper of its descendants, like an init process.

    Linux before 3.4 ignores this.
    """
    if os.getpid() != 1:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Make the kernel send this process a signal when its parent dies, for whatever reason."""
    prctl(PR_SET_PDEATHSIG, number)


def reaped() -> Iterator[tuple[int, int]]:
    """Yield the process id and the wait status of each child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def kill_children(but: Collection[int] = ()) -> int:
    """Kill the children of this process except those in `but`, and return how many there were.

    Zombies count: their orphans come to us, and once we are gone it is unknown who reaps them.
    """
    children = [pid for pid in _children_of(os.getpid()) if pid not in but]
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return len(children)


def kill_all_others() -> bool:
    """Kill all other processes, as PID 1 of a container or namespace; return whether there were any."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def descendants(ancestor: int) -> list[int]:
    """Return the process ids of all below a process, zombies included."""
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        children = _listed_children(waiting.pop())
        if children is None:
            return _scanned_descendants(ancestor)
        found += children
        waiting += children
    return found


def _listed_children(parent: int) -> list[int] | None:
    """Return the children of all threads of a process; None if this kernel does not list them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{thread}/children", "rb", buffering=0) as file:
                found += map(int, file.read(1 << 16).split())
    except FileNotFoundError:
        # It may have ended meanwhile; the list of our own thread is there, if the kernel has any.
        return found if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else None
    except OSError:
        pass
    return found


def _scanned_descendants(ancestor: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(ancestor, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _children_of(parent: int) -> list[int]:
    """Return the process ids of the children of `parent`, zombies included."""
    return [pid for pid, above in _parents() if above == parent]


def _parents() -> Iterator[tuple[int, int]]:
    """Yield all process ids that can be seen, each with that of its parent."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and (stat := stat_fields(int(name))):
            yield int(name), int(stat[1])


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of a process after its name, from its state on; empty if it is gone."""
    return read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def read_proc(path: str) -> bytes:
    """Return the content of a file of a process, which is short; empty if it is gone or not for us."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_MOST_READ)
    except OSError:
        return b""
