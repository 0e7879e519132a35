"""Durations as users write them: 90, 90s, 15m, 2h or 7d."""

import re

_PATTERN = r"(\d+(?:\.\d+)?)([smhd]?)"

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float | None:
    """Parse a duration and return it in seconds; None if it is not one."""
    match = re.fullmatch(_PATTERN, text, re.ASCII)
    return float(match[1]) * _UNITS[match[2]] if match else None
