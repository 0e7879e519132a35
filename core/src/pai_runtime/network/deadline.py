"""A deadline for all attempts of something together, and for what would not end by itself."""

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

_Result = TypeVar("_Result")


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


def within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """What `work` returns or raises, in a thread of its own; raises `TimeoutError` if that takes longer.

    Then the thread is left alone, and ends with the process at the latest: where no name server answers, the
    system's resolver takes minutes.
    """
    results: list[_Result] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]
