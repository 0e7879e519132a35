"""What a task is doing, in a file for whoever watches it."""

import json
import os
import time
from pathlib import Path
from typing import Literal

from pai_runtime.task.exit_record import write_whole
from pai_runtime.task.plan import Phase

VERSION = 1

StatePhase = Phase | Literal["held", "ended"]


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
