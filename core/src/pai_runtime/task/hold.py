"""A task that failed, kept as it is for somebody to look at."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pai_runtime.task.loop import Loop
from pai_runtime.task.state import State
from pai_runtime.task.stop import Stop

_LOOK_EVERY = 0.5
"""Seconds after which a held task looks whether it has been released."""


def hold(
    seconds: float, folder: Path, loop: Loop, stop: Stop, state: State, say: Callable[[str], None]
) -> None:
    """Keep the task as it is; services go on.

    It ends with the time, when a file ``release`` is in the task's folder, with SIGUSR1 to this process,
    or when the task is told to stop.
    """
    release = folder / "release"
    until = time.monotonic() + seconds
    released: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: released.append(number))
    state.set("held", held=(time.time() + seconds, release))
    say(
        f"[WARNING] the task is held for {seconds:g} s for debugging; "
        f"to release it: touch {release}, or kill -USR1 {os.getpid()}"
    )
    while not (released or release.exists()) and time.monotonic() < min(until, stop.work_until()):
        loop.turn(min(until, stop.work_until(), time.monotonic() + _LOOK_EVERY))
    signal.signal(signal.SIGUSR1, before)
    say("[INFO] the task is not held any more")
