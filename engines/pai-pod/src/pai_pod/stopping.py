"""Handling of stop signals during init, and of the processes that run for it at that moment."""

import os
import signal
import time
from types import FrameType

from pai_task.exit_codes import killed_by
from pai_task.signals import on_stop_signals

GRACE = 20.0
"""Seconds that a process has to end after the signal; Kubernetes' default for the whole pod is 30."""
_LOOK_EVERY = 0.02


_told: list[int] = []


class Stopped(KeyboardInterrupt):
    """The exception for the stop signal `number`; not an `Exception`, which other code might handle."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code for the signal."""
        return killed_by(self.number)


def raise_stopped() -> None:
    """Make stop signals raise `Stopped`; as PID 1 of a container, init would ignore them by default."""
    on_stop_signals(_stop)


def check_stopped() -> None:
    """Raise `Stopped` if a stop signal has come, whatever happened to the one raised then.

    It may have come during an import, which turns it into an ImportError, or in code that handles everything.
    """
    if _told:
        raise Stopped(_told[0])


def _stop(number: int, _frame: FrameType | None) -> None:
    _told.append(number)
    on_stop_signals(_leave)
    raise Stopped(number)


def _leave(number: int, _frame: FrameType | None) -> None:
    os._exit(killed_by(number))


def end(pid: int, number: int, *, group: bool) -> None:
    """Forward a signal to a child, or to its process group, and kill it if it does not end in time."""
    kill = os.killpg if group else os.kill
    kill(pid, number)
    until = time.monotonic() + GRACE
    while not has_ended(pid) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)
    kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def has_ended(pid: int) -> bool:
    """Return whether a child has ended, without reaping it, so that its id stays reserved."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
