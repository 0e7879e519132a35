"""Typed access to fields of objects whose content is untrusted."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pai_kubernetes.api import times
from pai_network.fields import mapping, mappings, string
from pai_runtime.engine.messages import cut, printable, server_text

LONGEST: Final = 300
"""Maximum characters of a text that are shown."""

_MOST_DIGITS = 9
_TOO_LARGE = 2**63
"""The exclusive upper limit of numbers, as in the API."""


def words(document: Any, *path: str) -> str:
    """Return the string at a path as one bounded, printable line."""
    return shown(string(document, *path))


def whole(document: Any, *path: str) -> int:
    """Return the number at a path, which labels have as text; 0 if it is missing, negative or too large."""
    found = mapping(document, *path[:-1]).get(path[-1])
    if isinstance(found, str) and len(found) <= _MOST_DIGITS and found.isascii() and found.isdigit():
        return int(found)
    return found if type(found) is int and 0 < found < _TOO_LARGE else 0


def moment(document: Any, *path: str) -> float | None:
    """Return the time at a path, in seconds since 1970; None if there is none."""
    return seconds(string(document, *path))


def condition(document: Any, kind: str) -> Mapping[str, Any]:
    """Return a condition in the status of an object; empty if there is none."""
    found = (each for each in mappings(document, "status", "conditions") if each.get("type") == kind)
    return next(found, {})


def holds(document: Any, kind: str) -> bool:
    """Return whether a condition of an object exists and is true."""
    return condition(document, kind).get("status") == "True"


def name_of(document: Any) -> str:
    """Return the name of an object."""
    return string(document, "metadata", "name")


def label(document: Any, name: str) -> str:
    """Return a label of an object; empty if it has none of this name."""
    return string(document, "metadata", "labels", name)


def annotation(document: Any, name: str) -> str:
    """Return an annotation of an object; empty if it has none of this name."""
    return string(document, "metadata", "annotations", name)


def shown(text: str) -> str:
    """Return a text as one bounded, printable line."""
    return cut(printable(" ".join(server_text(text, 4 * LONGEST).split())), LONGEST)


seconds = lru_cache(maxsize=8192)(times.seconds)
"""Parses a time (RFC 3339) into seconds since 1970, None if invalid; cached, as pods share few times."""
