"""The published state of a run while it lasts: ``run.json`` in its folder."""

import json
import time
from collections.abc import Callable

from pai_runtime.runs.state import RUN, Run
from pai_task.folder import Folder

_WRITE_EVERY = 0.25
"""Minimum seconds between two versions of ``run.json``."""

_MORE, _MORE_OF_TASK = 1024, 256
"""Maximum growth of ``run.json`` from its first to its last version: times, codes and counts."""


class RunRecord:
    """A publisher of the state of a run; ``run.json`` is written only after `changed`."""

    def __init__(self, folder: Folder, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._has_changed = True
        self._write_at = 0.0
        self._is_reserved = False

    def changed(self) -> None:
        """Mark the state as changed."""
        self._has_changed = True

    def show(self, run: Run) -> None:
        """Publish the current state if it has changed."""
        is_over = run.ended is not None
        if self._has_changed and (is_over or time.monotonic() >= self._write_at):
            self._has_changed = False
            self._write_at = time.monotonic() + _WRITE_EVERY  # each time it is all of the tasks
            try:
                self.write(run, is_over=is_over)
            except OSError as error:
                self._say(f"cannot write {error.filename}: {error.strerror}")

    def write(self, run: Run, *, is_over: bool = False) -> None:
        """Write the current state to ``run.json``. Raises OSError.

        With `is_over` it uses the space that was reserved in case the disk is full.
        """
        text = json.dumps(run.to_json()) + "\n"
        if is_over:
            self._folder.write(RUN, text)
            return
        if not self._is_reserved:
            self._is_reserved = True
            self._folder.reserve(RUN, len(text) + _MORE + len(run.tasks) * _MORE_OF_TASK)
        self._folder.write(f".{RUN}", text, sync=False)
        self._folder.move(f".{RUN}", self._folder, RUN)
