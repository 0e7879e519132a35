"""A limit of requests for each address."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MOST_ADDRESSES: Final = 10_000
_MINUTE: Final = 60.0


class RateLimit:
    """A token bucket for each address, which holds what a minute allows, in this process.

    Several processes of one database know nothing of each other's: an address may ask each of them as much.
    Against more than a client that runs wild, the proxy before them is the place for a limit.

    Of many addresses, those that have asked last are remembered. `now` replaces the clock, in seconds.
    """

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, address: str) -> bool:
        """Whether a request of an address is within the limit, against which it counts then."""
        now = self._now()
        left, since = self._left.pop(address, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - since) * self._per_minute / _MINUTE)
        self._left[address] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)
        return left >= 1
