"""The callbacks of a task that failed after its command, from its exit record, which is untrusted."""

from collections.abc import Mapping
from typing import Any, get_args

from pai_task.record import record
from pai_task.vocabulary import CutShort, Event


@record(frozen=True)
class FailedCallback:
    """A failed callback: its event, and its use with the use's position in the job file."""

    event: Event
    use: str
    source: str
    exit_code: int
    cut_short: CutShort | None


def count_failed_callbacks(record: Mapping[str, Any]) -> int:
    """Return how many callbacks have failed, by an exit record; 0 if it is invalid."""
    count = record.get("callbackFailureCount")
    return count if type(count) is int and count > 0 else 0


def failed_callbacks(record: Mapping[str, Any]) -> tuple[FailedCallback, ...]:
    """Return the failed callbacks in an exit record, in order, as far as it had room for them."""
    found = record.get("callbackFailures")
    try:
        return tuple(map(_callback, found)) if isinstance(found, list) else ()
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()


def _callback(document: Mapping[str, Any]) -> FailedCallback:
    event, cut_short = document["phase"], document.get("cutShort")
    if event not in get_args(Event) or cut_short not in (None, *get_args(CutShort)):
        raise ValueError(f"{document!r} is no failed callback")
    return FailedCallback(
        event, str(document["use"]), str(document["source"]), int(document["exitCode"]), cut_short
    )
