"""How long to wait before a retry: as long as the server asks, and a random time on top."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def backoff(
    failures: int, first: float, longest: float, draw: Callable[[float, float], float] | None = None
) -> float:
    """Seconds to wait after so many failures, from 1: exponential back-off with full jitter.

    The upper limit is `first` and doubles with each failure, up to `longest`. Below it the pause is random,
    so that many clients that failed at the same time do not all retry at the same time. `draw` stands for
    `random.uniform`.
    """
    from random import uniform  # noqa: PLC0415 - most processes never wait

    return (draw or uniform)(0, min(longest, first * 2 ** min(failures - 1, 32)))


def retry_after(value: str | None, now: float) -> float:
    """Seconds that a server asks to wait by this value of its header Retry-After (RFC 9110, 10.2.3), else 0.

    It may name a date, which is compared with `now`, in seconds since the epoch.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)

    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow, and servers seldom send a date

    try:
        return max(parsedate_to_datetime(text).timestamp() - now, 0)
    except (ValueError, OverflowError):
        return 0
