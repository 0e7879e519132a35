"""The events of a task, in order: ``events.jsonl``, one JSON object per line.

Each has `time`, in seconds of Unix time, and `event`, its kind; ``events.schema.json`` says which others.
"""

from __future__ import annotations

import os
import time

from pai_task.fast_json import dumps, loads_untrusted
from pai_task.layout import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pai_task.folder import Folder

MOST_BYTES = 1024 * 1024
"""The size in bytes at which the file becomes ``events.jsonl.1``, in the place of an earlier one."""

_MOST_CONTAINERS = 100
"""Maximum number of objects and lists in an event, of which it is one."""

_LATEST = 253402300800
"""The first moment whose year has five digits."""


class EventFile:
    """A writer of events to a file in a directory; on a full disk or a missing directory, events are lost."""

    def __init__(self, folder: Folder, name: str = EVENTS) -> None:
        self._folder = folder
        self._name = name
        self._fd: int | None = None

    def add(self, event: str, **fields: Any) -> dict[str, Any]:
        """Write an event with the current time, without fields that are None, and return it."""
        known = {name: value for name, value in fields.items() if value is not None}
        document = {"time": round(time.time(), 6), "event": event, **known}
        try:
            self._append(f"{dumps(document)}\n".encode())
        except OSError:
            self._close()
        return document

    def _append(self, line: bytes) -> None:
        if self._fd is None:
            self._fd = self._folder.append(self._name)
        if os.fstat(self._fd).st_size + len(line) > MOST_BYTES:
            self._close()
            self._folder.move(self._name, self._folder, f"{self._name}.1")
            self._fd = self._folder.append(self._name)
        os.write(self._fd, line)

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def read_events(folder: Folder, name: str = EVENTS) -> Iterator[dict[str, Any]]:
    """Yield the events in a directory, oldest first. Invalid lines and missing files are skipped."""
    for each in (f"{name}.1", name):
        try:
            lines = folder.read(each, 2 * MOST_BYTES).splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                event = loads_untrusted(line, _MOST_CONTAINERS)
            except ValueError:
                continue
            if isinstance(event, dict) and _is_event(event):
                yield event


def _is_event(document: dict[str, Any]) -> bool:
    when: Any = document.get("time")
    return isinstance(document.get("event"), str) and type(when) in (int, float) and 0 <= when < _LATEST
