"""Amounts as people read them, and times as they write them."""

import re

_TIME = r"(\d+(?:\.\d+)?)([smhd]?)"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun in the right form, such as ``1 retry`` or ``2 retries``."""
    return f"{number} {one if number == 1 else many}"


def size_text(size: float) -> str:
    """Format a number of bytes, such as ``512 B`` or ``12.3 MiB``."""
    if size < 1024:  # noqa: PLR2004 - of bytes
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:  # noqa: PLR2004 - as above
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def seconds(text: str) -> float | None:
    """Return a time such as 90, 90s, 15m, 2h or 7d in seconds; None if it is not one."""
    match = re.fullmatch(_TIME, text, re.ASCII)
    return float(match[1]) * _UNITS[match[2]] if match else None
