"""How long to wait before a retry."""

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
