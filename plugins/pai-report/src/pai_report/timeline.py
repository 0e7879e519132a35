"""What a task did when, as spans of time, from its events, which are untrusted."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pai_runtime.command.runs import Run, RunReader, RunTask

_MOST_ATTEMPTS: Final = 20
"""Attempts of a task that are read, the last ones."""

_STATES: Final = ("held", "lingering", "ending")
_STATE_ENDS: Final = (*_STATES, "released", "initEnded", "ended")
"""Events that begin a state, of which a task has one at a time, and those that end it."""
_STATE: Final = "state"

_Key = tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """What a task did for a while; a moment if `end` is `start`.

    `kind` is ``waiting``, a phase of the plan, ``service``, ``held``, ``lingering``, ``ending``, ``running``
    if no more is known, or ``note`` for a moment. `what` is the use or the service, `result` how it ended.
    Times are in seconds since 1970; `end` is None for what goes on.
    """

    attempt: int
    kind: str
    what: str
    start: float
    end: float | None
    result: str = ""


def spans_of(reader: RunReader, run: Run, task: RunTask) -> Iterator[Span]:
    """Yield what a task did, attempt by attempt; the start and the end alone where events are not kept."""
    since = run.started
    is_known = False
    for attempt in range(max(0, task.retries - _MOST_ATTEMPTS + 1), task.retries + 1):
        is_last = attempt == task.retries
        events = reader.events(task, None if is_last else attempt)
        if not events:
            continue
        is_known = True
        goes_on = is_last and not task.over and not run.over
        yield from _of_attempt(attempt, events, since, goes_on=goes_on)
        since = events[-1]["time"]
    if not is_known:
        begun = task.started
        if begun is None:
            yield Span(task.retries, "waiting", "", run.started, run.ended)
        else:
            result = f"exit code {task.exit_code}" if task.exit_code is not None else ""
            yield Span(task.retries, "running", "", begun, task.ended, result)


def _of_attempt(
    attempt: int, events: Iterable[Mapping[str, Any]], since: float, *, goes_on: bool
) -> Iterator[Span]:
    begun: dict[_Key, tuple[str, str, float]] = {}
    last = since
    for event in events:
        name, now = event["event"], event["time"]
        last = max(last, now)
        if name == "supervisorStarted" and now > since:
            yield Span(attempt, "waiting", "", since, now)
        if found := begun.pop(_ended_by(event), None):
            yield Span(attempt, *found, now, "" if found[0] in _STATES else _result(event))
        if note := _note(event):
            yield Span(attempt, "note", str(event.get("service") or ""), now, now, note)
        elif kind := _begun_by(event):
            key = (_STATE,) if name in _STATES else _key(event)
            begun[key] = kind, str(event.get("use") or event.get("service") or ""), now
    for kind, what, start in begun.values():
        yield Span(attempt, kind, what, start, None if goes_on else last)


def _begun_by(event: Mapping[str, Any]) -> str:
    """Return the kind of the span that an event begins; empty if it begins none."""
    name: str = event["event"]
    if name == "stepStarted":
        return str(event.get("phase"))
    if name in ("commandStarted", "serviceStarted"):
        return name.removesuffix("Started")
    return name if name in _STATES else ""


def _ended_by(event: Mapping[str, Any]) -> _Key:
    return (_STATE,) if event["event"] in _STATE_ENDS else _key(event)


def _key(event: Mapping[str, Any]) -> _Key:
    """Return what the events at the start and at the end of the same thing have in common."""
    kind = str(event["event"]).removesuffix("Started").removesuffix("Ended")
    return kind, *(str(event.get(name)) for name in ("phase", "useIndex", "service") if kind != "command")


def _note(event: Mapping[str, Any]) -> str:
    """Return what a moment is about; empty if the event is none that a person looks for."""
    name = event["event"]
    if name == "serviceReady":
        return f"ready {_text(event, 'address', 'at ')}".strip()
    if name == "serviceFailed":
        return f"failed: {_text(event, 'message')}"
    if name == "stopping":
        return f"told to end {_text(event, 'signal', 'by signal ')}".strip()
    if name == "decided":
        how = _text(event, "phrase") or _text(event, "outcome")
        return f"decided: {how}{_text(event, 'exitCode', ', exit code ')}"
    return "released" if name == "released" else ""


def _result(event: Mapping[str, Any]) -> str:
    return _text(event, "signal", "signal ") or _text(event, "exitCode", "exit code ")


def _text(event: Mapping[str, Any], field: str, before: str = "") -> str:
    value = event.get(field)
    return f"{before}{value}" if isinstance(value, (str, int)) else ""
