"""Stop of a task by a signal or by its timeout."""

from __future__ import annotations

import os
import time

from pai_task.signals import STOP_SIGNALS, on_stop_signals, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from pai_task.vocabulary import StopReason

_LIFELINE = signal.SIGURG
"""The signal that tells of the lifeline: SIGIO, the usual one, is forwarded to the command."""

FOREVER = float("inf")


class Stop:
    """Whether and why the task has been told to stop, and the deadlines of each kind of work.

    A signal of `STOP_SIGNALS` cancels the task, and a second one ends it at once, without further callbacks;
    of a task with a lifeline, whose signals are the cluster's, it says nothing more than the first. A
    timeout, in seconds from now, ends it as ``timeout``; `limit` is whose it is, for people. After either,
    the exit callbacks have `exit_budget` seconds in all.
    """

    def __init__(self, timeout: float | None, exit_budget: float, limit: str = "") -> None:
        self.limit = limit
        self.signal: int | None = None
        self.at_once = False
        self._has_lifeline = False
        self._told_at = FOREVER
        self._began = time.monotonic()
        self._timeout_at = self._began + timeout if timeout is not None else FOREVER
        self._exit_budget = exit_budget
        self._saving = 0.0
        on_stop_signals(self._tell)
        # Whoever starts us blocks them, so that none is lost before we listen.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def hold_on_to(self, lifeline: int) -> None:
        """Tell the task to stop once the other end of a pipe is closed, as by the end of who started it."""
        import fcntl  # noqa: PLC0415 - few engines have such a pipe

        self._has_lifeline = True
        signal.signal(_LIFELINE, lambda _number, _frame: self._look_at(lifeline))
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, _LIFELINE)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        self._look_at(lifeline)  # it may have been closed before the kernel was to tell

    def _look_at(self, lifeline: int) -> None:
        try:
            is_closed = not os.read(lifeline, 1)
        except BlockingIOError:
            return
        if is_closed:
            self._tell(signal.SIGTERM, None)

    def shorten(self, timeout: float) -> None:
        """Apply another timeout, in seconds from the start; the shorter one takes precedence."""
        if self._began + timeout < self._timeout_at:
            self._timeout_at, self.limit = self._began + timeout, ""

    def has_saved(self, seconds: float) -> None:
        """Give the exit callbacks the time back that the command took to save its work."""
        self._saving = seconds

    def reason(self) -> StopReason | None:
        """Return the reason to stop, the earlier one if there are two; None if there is none yet."""
        if self._told_at <= min(time.monotonic(), self._timeout_at):
            return "cancelled"
        return "timeout" if time.monotonic() >= self._timeout_at else None

    def work_until(self) -> float:
        """Return the deadline (monotonic clock) of everything before the exit callbacks."""
        return min(self._told_at, self._timeout_at)

    def exits_until(self) -> float:
        """Return the deadline (monotonic clock) of the exit callbacks."""
        return 0.0 if self.at_once else self.work_until() + self._saving + self._exit_budget

    def analysis_until(self) -> float:
        """Return the deadline (monotonic clock) of analysing a failure, with time left for exit callbacks."""
        return 0.0 if self.at_once else self.work_until() + self._saving + self._exit_budget / 2

    def _tell(self, number: int, _frame: FrameType | None) -> None:
        # Slurm tells a task twice, within milliseconds, that its job is preempted.
        self.at_once = self.signal is not None and not self._has_lifeline
        if self.signal is None:
            self.signal = number
            self._told_at = time.monotonic()
