"""A task that is kept as it is for a while: for somebody to look at it, or for its services."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pai_runtime.task.loop import Loop
from pai_runtime.task.state import Kept, State
from pai_runtime.task.stop import Stop

_LOOK_EVERY = 0.5
"""Seconds after which a task that is kept looks whether it has been released."""


class Keeper:
    """Keeps a task as it is; its services go on."""

    def __init__(
        self, folder: Path, loop: Loop, stop: Stop, state: State, say: Callable[[str], None]
    ) -> None:
        self._release = folder / "release"
        self._loop = loop
        self._stop = stop
        self._state = state
        self._say = say

    def keep(
        self, phase: Kept, seconds: float, why: str, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """For so many seconds; `why`, for people.

        It ends before that when a file ``release`` is in the task's folder, with SIGUSR1 to this process,
        when the task is told to stop, and when it is not wanted any more.
        """
        until = time.monotonic() + seconds
        released: list[int] = []
        before = signal.signal(signal.SIGUSR1, lambda number, _frame: released.append(number))
        self._state.set(phase, kept=(time.time() + seconds, self._release))
        self._say(
            f"[WARNING] the task is {phase} for {seconds:g} s {why}; "
            f"to release it: touch {self._release}, or kill -USR1 {os.getpid()}"
        )
        while is_wanted() and not (released or self._release.exists()):
            end = min(until, self._stop.work_until())
            if time.monotonic() >= end:
                break
            self._loop.turn(min(end, time.monotonic() + _LOOK_EVERY))
        signal.signal(signal.SIGUSR1, before)
        self._say(f"[INFO] the task is not {phase} any more")
