"""What a task is doing, in a file for whoever watches it; and being held after a failure."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pai_runtime.task.exit_record import write_whole
from pai_runtime.task.loop import Loop
from pai_runtime.task.plan import Phase
from pai_runtime.task.stop import Stop

VERSION = 1

StatePhase = Phase | Literal["held", "ended"]

_LOOK_EVERY = 0.5
"""Seconds after which a held task looks whether it has been released."""


class State:
    """``state.json`` in a task's folder, written anew at each change."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.json"

    def set(self, phase: StatePhase, use: str | None = None, held: tuple[float, Path] | None = None) -> None:
        """A phase has begun; in it, the step of a use. `held`: until when (Unix time), and its release."""
        until, release = held or (None, None)
        document = {
            "stateVersion": VERSION,
            "phase": phase,
            "use": use,
            "since": time.time(),
            "heldUntil": until,
            "release": release and str(release),
            "pid": os.getpid(),
        }
        try:
            write_whole(self._path, json.dumps(document) + "\n", sync=False)
        except OSError:
            return  # only those who watch miss it; the logs say what is wrong with the disk


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
