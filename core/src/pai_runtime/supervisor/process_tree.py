"""System calls about the process tree: subreaper, parent-death signal, children."""

from __future__ import annotations

import os

from pai_runtime.task.own_process import prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Collection
else:
    import _signal as signal  # without the enums, which take as long to make as a task to set up

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the subreaper of its descendants, like an init process.

    Linux before 3.4 ignores this.
    """
    if os.getpid() != 1:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Make the kernel send this process a signal when its parent dies, for whatever reason."""
    prctl(PR_SET_PDEATHSIG, number)


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


def _children_of(parent: int) -> list[int]:
    """Return the process ids of the children of `parent`, zombies included."""
    children = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    ppid = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            if ppid == parent:
                children.append(int(name))
    return children
