"""A pipe that becomes readable when a child exits or a signal arrives."""

from __future__ import annotations

import os

from pai_task.signals import signal


class WakePipe:
    """A pipe whose `fd` is readable once a child has ended or a signal has arrived; only one per process."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        for fd in (self.fd, self._write):
            os.set_blocking(fd, False)
        self._before = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def clear(self) -> None:
        """Read away what has been written so far."""
        try:
            os.read(self.fd, 65536)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close the pipe, and restore the handling of signals."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self._before)
        os.close(self.fd)
        os.close(self._write)
