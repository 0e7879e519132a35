"""Values in the documents of a server, which may be anything."""

from collections.abc import Mapping
from typing import Any


def number(document: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number; None if there is none."""
    found = document.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def moment(document: Mapping[str, Any], key: str) -> float | None:
    """Return a time in seconds since 1970, of one in milliseconds; None if there is none."""
    found = number(document, key)
    return found / 1000 if found is not None and 0 < found < 1e15 else None  # noqa: PLR2004 - no calendar goes farther
