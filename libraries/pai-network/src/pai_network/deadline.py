"""Deadlines for all attempts of something together, and for calls that may block for ever."""

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

_Result = TypeVar("_Result")


class Deadline:
    """A deadline `seconds` from now; `now` and `sleep` replace the clock, for tests."""

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
        """Return the seconds that are left; 0 once the deadline has passed."""
        return max(self._end - self._now(), 0)

    def wait(self, seconds: float) -> bool:
        """Wait, and return True; return False at once if less time is left."""
        if seconds >= self.left():
            return False
        self._sleep(seconds)
        return True


def within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Run `work` in a thread of its own, and return its result. Raises `TimeoutError` if it takes longer.

    After a timeout the thread is abandoned, and ends with the process at the latest: the system's resolver
    takes minutes if no name server answers.
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
