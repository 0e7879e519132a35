"""The signals that tell a process to stop, and the module `signal` without its enumerations.

These take as long to make as a task to set up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
else:
    import _signal as signal

__all__ = ["STOP_SIGNALS", "ignore_stop_signals", "on_stop_signals", "signal"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def on_stop_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Install `handler` for each of `STOP_SIGNALS`, except for a SIGHUP that ``nohup`` ignores."""
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def ignore_stop_signals() -> None:
    """Ignore `STOP_SIGNALS` from now on: for a process whose exit status is decided, until it has ended."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
