"""Values in the documents of a server, which may be anything."""

from collections.abc import Iterator, Mapping
from typing import Any


def mapping(document: Any, *path: str) -> Mapping[str, Any]:
    """Return the object at a path; empty if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def mappings(document: Any, *path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of the list at a path."""
    found = mapping(document, *path[:-1]).get(path[-1]) if path else document
    yield from (each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def text(document: Any, key: str) -> str:
    """Return a text of an object; empty if there is none."""
    found = mapping(document).get(key)
    return found if isinstance(found, str) else ""


def number(document: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number; None if there is none."""
    found = document.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def moment(document: Mapping[str, Any], key: str) -> float | None:
    """Return a time in seconds since 1970, of one in milliseconds; None if there is none."""
    found = number(document, key)
    return found / 1000 if found is not None and 0 < found < 1e15 else None  # noqa: PLR2004 - no calendar goes farther
