"""What a task is doing, in a file for whoever watches it."""

import json
import time
from typing import Any, Literal

from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import STATE
from pai_runtime.task.plan import Phase

VERSION = 1

Kept = Literal["held", "lingering"]
StatePhase = Phase | Kept | Literal["ended"]


class State:
    """``state.json`` in a task's folder, written anew at each change; `pid` is the supervisor's."""

    def __init__(self, folder: Folder, pid: int) -> None:
        self._folder = folder
        self._pid = pid
        self._document: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}

    def set(self, phase: StatePhase, use: str | None = None, kept: tuple[float, str] | None = None) -> None:
        """A phase has begun; in it, the step of a use. `kept`: until when (Unix time), and its release."""
        until, release = kept or (None, None)
        self._document = {
            "stateVersion": VERSION,
            "phase": phase,
            "use": use,
            "since": time.time(),
            "heldUntil": until,
            "release": release,
            "pid": self._pid,
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
            self._folder.write(STATE, json.dumps(self._document) + "\n", sync=False)
        except OSError:
            return  # only those who watch miss it; the logs say what is wrong with the disk
