"""What a task is doing, in a file for whoever watches it; and being kept as it is for a while."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pai_runtime.task.exit_record import write_whole
from pai_runtime.task.loop import Loop
from pai_runtime.task.plan import Phase
from pai_runtime.task.stop import Stop

VERSION = 1

Kept = Literal["held", "lingering"]
StatePhase = Phase | Kept | Literal["ended"]

_LOOK_EVERY = 0.5
"""Seconds after which a task that is kept looks whether it has been released."""


class State:
    """``state.json`` in a task's folder, written anew at each change."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.json"
        self._document: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}

    def set(self, phase: StatePhase, use: str | None = None, kept: tuple[float, Path] | None = None) -> None:
        """A phase has begun; in it, the step of a use. `kept`: until when (Unix time), and its release."""
        until, release = kept or (None, None)
        self._document = {
            "stateVersion": VERSION,
            "phase": phase,
            "use": use,
            "since": time.time(),
            "heldUntil": until,
            "release": release and str(release),
            "pid": os.getpid(),
            "addresses": self._addresses,
        }
        self._write()

    def add_address(self, service: str, address: str) -> None:
        """A service can be reached from now on."""
        self._addresses[service] = address
        if self._document:
            self._write()

    def _write(self) -> None:
        try:
            write_whole(self._path, json.dumps(self._document) + "\n", sync=False)
        except OSError:
            return  # only those who watch miss it; the logs say what is wrong with the disk


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
