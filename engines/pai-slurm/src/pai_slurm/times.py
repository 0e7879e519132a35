"""Time limits and points in time as Slurm writes them. Pure."""

import re
import time
from typing import Final

TIME_LIMIT: Final = r"[0-9]+(-[0-9]+(:[0-9]+){0,2}|(:[0-9]+){0,2})"
"""The regular expression of one that ``sbatch --time`` takes: minutes, H:MM:SS, or D-HH and more."""

_MOST_DIGITS: Final = 9
_MOMENT: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})")


def seconds_of(text: str) -> float:
    """Return a time limit in seconds; infinite for one that is none."""
    if not re.fullmatch(TIME_LIMIT, text) or any(len(part) > _MOST_DIGITS for part in re.split("[-:]", text)):
        return float("inf")
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*parts, 0, 0][:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(parts) < 3:  # noqa: PLR2004 - minutes, with seconds or without
        parts = [0, *parts, 0][:3]
    hours, minutes, seconds = parts
    return (hours * 60 + minutes) * 60 + seconds


def moment_of(text: str) -> float:
    """Return a point in time, in seconds since 1970. Raises ValueError if it is none, such as ``N/A``."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is no point in time")
    year, month, day, hour, minute, second = map(int, found.groups())
    return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
