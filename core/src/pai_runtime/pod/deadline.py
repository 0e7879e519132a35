"""A deadline for all attempts of something together."""

import time
from collections.abc import Callable


class Deadline:
    """So many seconds from now on. Time and pauses are given by `now` and `sleep`."""

    def __init__(
        self,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._end = now() + seconds

    def left(self) -> float:
        """The seconds that are left; 0 when it has passed."""
        return max(self._end - self._now(), 0)

    def wait(self, seconds: float) -> bool:
        """Wait, and return True; at once False if there is not more time than that."""
        if seconds >= self.left():
            return False
        self._sleep(seconds)
        return True
