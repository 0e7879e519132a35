"""Times and durations formatted for people."""

import time


def time_span(seconds: float) -> str:
    """Format a duration in seconds, such as ``7s``, ``12m05s``, ``3h20m`` or ``2d04h``."""
    seconds = max(0, int(seconds))
    for size, unit, smaller, smaller_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // smaller:02}{smaller_unit}"
    return f"{seconds}s"


def clock(moment: float) -> str:
    """Format the local time of day of a time in seconds since 1970."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def moment(seconds: float, now: float) -> str:
    """Format the local time of a time in seconds since 1970, with its date unless it is today."""
    then, today = time.localtime(seconds), time.localtime(now)
    form = "%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, then)


def elapsed(started: float | None, ended: float | None, now: float) -> str:
    """Format the time between start and end, or until now; empty if it has not started."""
    return time_span((now if ended is None else ended) - started) if started is not None else ""
