"""The variables of a task as one line of a log: how ``explain`` learns them where nobody reads its files.

The line has what ``variables.json`` has of the task's own; what all tasks share is too much for a log, and
whoever reads the line can make it from the job.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pai_runtime.task.fast_json import dumps, loads
from pai_runtime.task.plan import PEERS, SharedVariables

PREFIX: Final = b"[pai-runtime variables] "
MOST_BYTES: Final = 64 * 1024
"""Of a line, without the prefix."""


def told_line(variables: Mapping[str, Any]) -> bytes:
    """The line that tells what ``variables.json`` has; the largest are left out where it would be too long.

    Raises `ValueError` for what is no such file: a task can write what it likes there.
    """
    try:
        own = {name: each for name, each in variables.items() if each["source"] != PEERS}
        line = dumps(dict(_that_fit(own)))
    except (AttributeError, TypeError, LookupError, RecursionError):
        raise ValueError("expected a mapping from names of variables to what they are") from None
    return PREFIX + line.encode("utf-8", "backslashreplace") + b"\n"


def is_told(line: bytes) -> bool:
    """Whether a line of a log is one of these, which is not to be shown."""
    return line.startswith(PREFIX)


def read_told(log: bytes) -> dict[str, Any]:
    """The variables that the last such line in a log tells; empty without one.

    Raises `ValueError` for a line that is none of ours.
    """
    for line in reversed(log.split(b"\n")):
        if is_told(line):
            try:
                told = loads(line[len(PREFIX) :])
            except RecursionError:
                told = None
            if not isinstance(told, dict):
                raise ValueError("expected an object")
            return told
    return {}


def with_peers(told: Mapping[str, Any], shared: SharedVariables) -> dict[str, Any]:
    """As ``variables.json`` has them: those of the task, and where it was told nothing else, of its peers."""
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
