"""The variables of a task as a line in its log, for ``variables`` where the task's files cannot be read.

Another line tells that the task is held, or lingers, and no longer.

The line has what ``variables.json`` has of the task's own; what all tasks share is too much for a log, and
whoever reads the line can make it from the job.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pai_task.fast_json import dumps, loads
from pai_task.plan import PEERS, SharedVariables

PREFIX: Final = b"[pai-runtime variables] "
STATE_PREFIX: Final = b"[pai-runtime state] "
MOST_BYTES: Final = 64 * 1024
"""Maximum length of a line in bytes, without the prefix."""
_MOST_OF_STATE: Final = 8192


def told_line(variables: Mapping[str, Any]) -> bytes:
    """Return the log line with the content of ``variables.json``; the largest variables are left out to fit.

    Raises `ValueError` if it is invalid: a task can write anything there.
    """
    try:
        own = {name: each for name, each in variables.items() if each["source"] != PEERS}
        line = dumps(dict(_that_fit(own)))
    except (AttributeError, TypeError, LookupError, RecursionError):
        raise ValueError("expected a mapping from names of variables to what they are") from None
    return PREFIX + line.encode("utf-8", "backslashreplace") + b"\n"


def state_line(state: Mapping[str, Any]) -> bytes:
    """Return the log line that says, from ``state.json``, since when and until when the task is held."""
    told = {key: state.get(key) for key in ("phase", "since", "heldUntil", "release")}
    return STATE_PREFIX + dumps(told)[:_MOST_OF_STATE].encode("utf-8", "backslashreplace") + b"\n"


def is_told(line: bytes) -> bool:
    """Return whether a log line is one of these, which are not shown."""
    return line.startswith((PREFIX, STATE_PREFIX))


class ToldFilter:
    """Leaves these lines out of a log that is read in pieces; only the beginning of a line is held back."""

    def __init__(self) -> None:
        self._start = b""
        self._is_kept: bool | None = None  # of the line that has begun; None: not known yet

    def feed(self, data: bytes) -> bytes:
        """Return what is to be shown of the next bytes, and of what was held back."""
        kept = b""
        for line in re.split(rb"(?<=\n)", data):
            self._start += line
            if self._is_kept is None and not _may_be_told(self._start):
                self._is_kept = True
            elif self._is_kept is None and is_told(self._start):
                self._is_kept = False
            if self._is_kept is not None:
                kept += self._start if self._is_kept else b""
                self._start = b""
            if line.endswith(b"\n"):
                kept, self._start, self._is_kept = kept + self._start, b"", None
        return kept

    def flush(self) -> bytes:
        """Return what was held back, at the end of the log."""
        kept, self._start, self._is_kept = self._start, b"", None
        return kept


def without_told(log: bytes) -> bytes:
    """Return a log without these lines."""
    lines = ToldFilter()
    return lines.feed(log) + lines.flush()


def read_told(log: bytes, prefix: bytes = PREFIX) -> dict[str, Any]:
    """Return the content of the last line of this kind in a log; empty if there is none.

    By default these are the variables; `STATE_PREFIX` selects the state. Raises `ValueError` if it is
    invalid.
    """
    for line in reversed(log.split(b"\n")):
        if line.startswith(prefix):
            try:
                told = loads(line[len(prefix) :])
            except RecursionError:
                told = None
            if not isinstance(told, dict):
                raise ValueError("expected an object")
            return told
    return {}


def with_peers(told: Mapping[str, Any], shared: SharedVariables) -> dict[str, Any]:
    """Add the peers' variables to the task's own, which take precedence, as ``variables.json`` has them."""
    peers = {name: {"source": PEERS, "value": value} for name, value in shared.peers.items()}
    return dict(sorted({**peers, **told}.items()))


def _that_fit(own: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    sizes = {name: len(dumps({name: each}).encode("utf-8", "backslashreplace")) for name, each in own.items()}
    total, fit = 2, set()
    for name in sorted(sizes, key=sizes.__getitem__):
        total += sizes[name] + 2
        if total <= MOST_BYTES:
            fit.add(name)
    return ((name, each) for name, each in own.items() if name in fit)


def _may_be_told(start: bytes) -> bool:
    """Return whether a log line that begins with `start` can be one of these."""
    return any(prefix.startswith(start[: len(prefix)]) for prefix in (PREFIX, STATE_PREFIX))
