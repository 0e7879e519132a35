"""When to try again: which failures may pass, and how long to wait."""

import re
import time
from collections.abc import Callable

from pai_runtime.plugin import backoff, retry_after

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds. The longest pause doubles with every failure, from the first to this."""

_QUOTED = re.compile(r"'[^'\n]*'")
"""What git quotes: URLs and names."""
_STATUS = re.compile(r"(?:returned error:|\bHTTP) (\d{3})\b")
_PASSING_STATUS = re.compile(r"408|429|5\d\d")
_WILL_NOT_PASS = re.compile(
    r"remote error:|not our ref|permission denied|host key verification failed|authentication failed"
    r"|no space left|certificate",
    re.IGNORECASE,
)
_MAY_PASS = re.compile(
    r"could not resolve|temporary failure in name resolution"
    r"|connection (?:refused|reset|closed|timed out|was )|timed out|failed to connect|couldn't connect"
    r"|network is unreachable|no route to host|broken pipe|too slow|empty reply|rpc failed|transfer closed"
    r"|early eof|fatal: expected"
    r"|hung up|unexpected disconnect|unexpected eof|non-properly terminated|ssl_error_syscall",
    re.IGNORECASE,
)
_LAST_ANSWER = re.compile(r".*<= Recv header: HTTP/", re.DOTALL)
_RETRY_AFTER = re.compile(r"<= Recv header: retry-after:\s*(.*)", re.IGNORECASE)


def may_pass(words: str) -> bool:
    """Whether a failure of git with these words may be gone on another try."""
    words = _QUOTED.sub("", words)
    statuses = _STATUS.findall(words)
    if statuses:
        return all(_PASSING_STATUS.fullmatch(status) for status in statuses)
    return bool(_MAY_PASS.search(words)) and not _WILL_NOT_PASS.search(words)


def asked_pause(trace: str, now: float) -> float:
    """The seconds that the last answer in git's trace asks to wait, at `now` (since the epoch); else 0."""
    found = _RETRY_AFTER.search(_LAST_ANSWER.sub("", trace, count=1))
    return retry_after(found[1], now) if found else 0


def pause(
    failures: int, least: float, left: float, draw: Callable[[float, float], float] | None = None
) -> float | None:
    """Seconds to wait after so many failures: `least`, and back-off on top; None if less is `left`."""
    if left <= 0 or least > left:
        return None
    return min(least + backoff(failures, FIRST_PAUSE, LONGEST_PAUSE, draw), left)


class Retries:
    """The tries of one clone, until `budget` seconds after the first failure."""

    def __init__(
        self,
        budget: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._budget = budget
        self._clock = clock
        self._sleep = sleep
        self._failures = 0
        self._until = 0.0

    def wait(self, least: float, say: Callable[[str], None]) -> bool:
        """Wait before the next try, `least` seconds or more; False if the budget does not allow another."""
        now = self._clock()
        if not self._failures:
            self._until = now + self._budget
        self._failures += 1
        seconds = pause(self._failures, least, self._until - now)
        if seconds is None:
            asked = f", and the server asks to wait {least:.0f} seconds" if least else ""
            say(f"giving up after {self._failures} attempts; retry_minutes is {self._budget / 60:g}{asked}")
            return False
        say(f"retrying in {seconds:.1f} seconds")
        self._sleep(seconds)
        return True
