"""Stop signals during work that must not be interrupted anywhere."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pai_task.signals import STOP_SIGNALS, on_stop_signals


@contextmanager
def stop_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handler` for each of `STOP_SIGNALS` during the block; no effect outside the main thread."""
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
