"""Signals that tell a command to stop, while it does what must not end just anywhere."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pai_runtime.supervisor.stop import STOP_SIGNALS, on_stop_signals


@contextmanager
def stop_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Meanwhile `handler` is called for each of `STOP_SIGNALS`, of which only the main thread is told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    on_stop_signals(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
