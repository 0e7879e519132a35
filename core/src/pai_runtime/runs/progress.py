"""The progress of a task, from its ``state.json``, which is untrusted and may be written meanwhile."""

from collections.abc import Mapping
from typing import Any, get_args

from pai_task.folder import Folder
from pai_task.record import field, record
from pai_task.state import read_state
from pai_task.vocabulary import StatePhase

_FAR_FUTURE = 1e11


@record(frozen=True)
class Progress:
    """The content of ``state.json``: the phase of a task, its use, and since when (seconds since 1970).

    `stopping` is the signal by which the phase was told to end at that time; None if it was not. A task that
    is held for debugging, or lingers for its services, does so until the time `held_until`, or until the file
    `release` exists. `addresses` are those of the services that are ready, by name,
    `failed_services` says why others are not. `notes` is what people are told about the task, `at` where its
    command was when that was last said; empty if it was not.
    """

    phase: StatePhase
    use: str | None
    since: float
    stopping: int | None = None
    held_until: float | None = None
    release: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    failed_services: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    at: str = ""


def read_progress(task: Folder) -> Progress | None:
    """Read what a task is doing, or did last; None if unknown."""
    return progress_of(read_state(task))


def progress_of(state: Mapping[str, Any]) -> Progress | None:
    """Parse the content of a ``state.json``; None if it is invalid."""
    try:
        if state["phase"] not in get_args(StatePhase):
            return None
        use, stopping = state.get("use"), state.get("stopping")
        held_until, release = state.get("heldUntil"), state.get("release")
        return Progress(
            phase=state["phase"],
            use=_text(use) if use is not None else None,
            since=_moment(state["since"]),
            stopping=int(stopping) if stopping is not None else None,
            held_until=_moment(held_until) if held_until is not None else None,
            release=_text(release) if release is not None else None,
            addresses=_texts(state.get("addresses", {})),
            failed_services=_texts(state.get("failedServices", {})),
            notes=tuple(map(_text, state.get("notes", ()))),
            at=_text(state.get("at", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in values.items()}


def _text(value: str) -> str:
    if not value.isprintable():
        raise ValueError(f"{value!r} is not what a person can read")
    return value


def _moment(value: Any) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value < _FAR_FUTURE:
        raise ValueError(f"{value!r} is no time")
    return float(value)
