"""Parents, children and orphans among processes."""

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
    """Have orphans below this process come to it, as to an init process. Linux before 3.4 does without."""
    if os.getpid() != 1:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Be sent a signal when the process that has started us is gone, however it went."""
    prctl(PR_SET_PDEATHSIG, number)


def kill_children(but: Collection[int] = ()) -> int:
    """Kill the children of this process, with some left out; how many there were.

    Dead ones that nobody has reaped count: what they leave comes to us, and once we are gone it is not known
    when somebody reaps them.
    """
    children = [pid for pid in _children_of(os.getpid()) if pid not in but]
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return len(children)


def kill_all_others() -> bool:
    """Kill all other processes, as the first one of a container or a namespace; whether there were any."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _children_of(parent: int) -> list[int]:
    """The processes whose parent is `parent`, dead ones that nobody has reaped too."""
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
