"""The state of a task in ``state.json``, which is derived from its events."""

from __future__ import annotations

from pai_task.fast_json import dumps, loads
from pai_task.layout import STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pai_task.events import EventFile
    from pai_task.folder import Folder

VERSION = 1

_MOST_BYTES = 64 * 1024
"""Maximum size, enough for a thousand services; reading a MiB of nested lists takes 0.2 s each time."""
_PHASES = ("held", "lingering", "ending", "ended")
"""Phases that are named like the event with which they begin."""


class Journal:
    """A writer of a task's events, and of ``state.json`` whenever an event changes it."""

    def __init__(self, folder: Folder, events: EventFile) -> None:
        self._folder = folder
        self._events = events
        self._state: dict[str, Any] = {}

    def add(self, event: str, **fields: Any) -> None:
        """Record an event; see `EventFile.add`."""
        state = state_after(self._state, self._events.add(event, **fields))
        if state != self._state:
            self._state = state
            if state["phase"] is not None:
                self._write(dumps(state) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._folder.write(STATE, text, sync=False)
        except OSError:
            return  # only those who watch miss it; the logs say what is wrong with the disk


def state_after(state: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a task after a further event; the state before the first one is ``{}``."""
    kind, now = event["event"], event["time"]
    base = {
        "stateVersion": VERSION,
        "phase": None,
        "use": None,
        "since": now,
        "stopping": None,
        "heldUntil": None,
    }
    if kind == "supervisorStarted":
        return {
            **base,
            "release": None,
            "pid": event["pid"],
            "addresses": {},
            "failedServices": {},
            "notes": [],
            "at": "",
        }
    if kind in ("serviceReady", "serviceFailed"):
        return {**state, **_services_after(state, event)}
    if kind in ("noted", "seenAt"):
        said = {"at": event["at"]} if "at" in event else {"notes": [*state["notes"], event["note"]]}
        return {**state, **said}
    if kind == "stopping":
        return {**state, "since": now, "stopping": event["signal"]}
    if kind == "stepStarted":
        phase = event["phase"]
    elif kind == "commandStarted":
        phase = "command"
    elif kind in _PHASES:
        phase = kind
    else:
        return dict(state)
    return {
        **state,
        "phase": phase,
        "use": event.get("use"),
        "since": now,
        "stopping": None,
        "heldUntil": event.get("until"),
        "release": event.get("release"),
    }


def _services_after(state: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of services after one of them is ready, or has failed."""
    name = event["service"]
    addresses, failed = (
        {each: value for each, value in state[key].items() if each != name}
        for key in ("addresses", "failedServices")
    )
    if event["event"] == "serviceFailed":
        failed[name] = event["message"]
    elif "address" in event:
        addresses[name] = event["address"]
    return {"addresses": addresses, "failedServices": failed}


def read_state(folder: Folder) -> dict[str, Any]:
    """Return the content of ``state.json`` in a task's directory; empty if it cannot be read."""
    try:
        state = loads(folder.read(STATE, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}
