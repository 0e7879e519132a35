"""Being told to stop: the signal that ends init, and whatever runs for it at that moment."""

import os
import signal
import time
from types import FrameType

from pai_runtime.supervisor.stop import on_stop_signals
from pai_runtime.task.exit_codes import killed_by

GRACE = 20.0
"""Seconds that a process has to end after the signal. Kubernetes gives the whole pod 30, unless told so."""
_LOOK_EVERY = 0.02


_told: list[int] = []


class Stopped(KeyboardInterrupt):
    """Init was told to stop by the signal `number`. Not an `Exception`, which other code might handle."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code that says so."""
        return killed_by(self.number)


def raise_stopped() -> None:
    """Have the signals raise `Stopped`: as the first process of a container, we would not notice them."""
    on_stop_signals(_stop)


def check_stopped() -> None:
    """Raise `Stopped` if a signal has come, whatever has become of the one that was raised then.

    It may have come in the middle of an import, which makes an ImportError of it, or into code that handles
    everything.
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
    """Pass a signal on to a child, or all of its process group, and kill it if it does not end in time."""
    kill = os.killpg if group else os.kill
    kill(pid, number)
    until = time.monotonic() + GRACE
    while not has_ended(pid) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)
    kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def has_ended(pid: int) -> bool:
    """Whether a child has ended; it is not reaped, so that its id remains its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
