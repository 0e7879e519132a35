"""Delays before a retry: exponential back-off with jitter, and what a server asks for in ``Retry-After``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def backoff(
    failures: int, first: float, longest: float, draw: Callable[[float, float], float] | None = None
) -> float:
    """Return the seconds to wait after `failures` failures in a row: exponential back-off with full jitter.

    The upper limit is `first` seconds and doubles with each failure, up to `longest`. The delay is drawn at
    random between 0 and that limit, so that many clients that failed together do not all retry together.
    `draw` replaces `random.uniform`, for tests.
    """
    from random import uniform  # noqa: PLC0415 - most processes never wait

    return (draw or uniform)(0, min(longest, first * 2 ** min(failures - 1, 32)))


def retry_after(value: str | None, now: float) -> float:
    """Return the seconds to wait by the value of a ``Retry-After`` header (RFC 9110, 10.2.3); 0 without one.

    A value that is a date is compared with `now`, in seconds since the epoch.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)

    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow, and servers seldom send a date

    try:
        return max(parsedate_to_datetime(text).timestamp() - now, 0)
    except (ValueError, OverflowError):
        return 0
