"""Times of the Kubernetes API (RFC 3339), which have up to nine digits after the second."""

import re
from datetime import datetime, timezone
from typing import Final

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


def nanoseconds(text: str) -> int | None:
    """Parse a time into nanoseconds since 1970; None if it is invalid."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    second, fraction, zone = found.groups(default="")
    try:
        moment = datetime.fromisoformat(second + ("+00:00" if zone in "Zz" else zone))
    except ValueError:
        return None
    return int(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def seconds(text: str) -> float | None:
    """Parse a time into seconds since 1970; None if it is invalid."""
    moment = nanoseconds(text)
    return None if moment is None else moment / 1e9


def as_text(moment: float) -> str:
    """Format a time in seconds since 1970, rounded down to the second."""
    return datetime.fromtimestamp(int(moment), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
