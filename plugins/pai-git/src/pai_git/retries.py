"""Retries of a clone: which failures are transient, and how long to wait."""

import re
import time
from collections.abc import Callable

from pai_runtime.plugin import backoff, retry_after

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Upper limits of the pause in seconds: it doubles with every failure, from the first to the longest."""

_QUOTED = re.compile(r"'[^'\n]*'")
"""Quoted parts of git's messages: URLs and names."""
_STATUS = re.compile(r"(?:returned error:|\bHTTP) (\d{3})\b")
_FINAL_STATUS = re.compile(r"4(?!08|29)\d\d")
_FINAL = re.compile(
    r" not found\b|does not exist|does not appear to be a git repository|not exported"
    r"|no such (?:repository|ref)"
    r"|not our ref|couldn't find remote ref|no url found|did not contain"
    r"|permission denied|access denied|host key verification failed"
    r"|authentication failed|could not read (?:user|pass)"
    r"|certificate (?:verif|problem|has|is|subject)|ssl certificate"
    r"|no space left|quota exceeded|read-only file system|file name too long"
    r"|unknown (?:option|switch)|invalid (?:filter|value)"
    r"|transport .*not (?:allowed|supported)|find remote helper",
    re.IGNORECASE,
)
"""Messages that certainly mean a permanent failure; the wording of others depends on git's version."""
_ANSWER, _QUESTION = "<= Recv header: HTTP/", "=> Send header"
_RETRY_AFTER = re.compile(r"<= Recv header: retry-after:[ \t]*(.*)", re.IGNORECASE)


def is_final(words: str, trace: str) -> bool:
    """Return whether git would fail again on a retry, by its messages and the trace of its requests."""
    words = _QUOTED.sub("", words)
    statuses = _STATUS.findall(words) or _last_status(trace)
    return any(map(_FINAL_STATUS.fullmatch, statuses)) or bool(_FINAL.search(words))


def asked_pause(trace: str, now: float) -> float:
    """Return the seconds that the last answer in git's trace asks to wait at `now` (Unix time), else 0."""
    found = _RETRY_AFTER.search(_last_answer(trace))
    return retry_after(found[1], now) if found else 0


def _last_answer(trace: str) -> str:
    """Return the trace from the last answer on, or all of it if there is none."""
    return trace.rpartition(_ANSWER)[2]


def _last_status(trace: str) -> list[str]:
    """Return the HTTP status of the last answer if no request followed it."""
    before, _, last = trace.rpartition(_ANSWER)
    _, _, status = last.partition("\n")[0].partition(" ")
    return [status[:3]] if before and _QUESTION not in last else []


def pause(
    failures: int, least: float, left: float, draw: Callable[[float, float], float] | None = None
) -> float | None:
    """Return the seconds to wait: back-off, but not less than `least`; None if less time is `left`."""
    if left <= 0 or least > left:
        return None
    return min(least + backoff(failures, FIRST_PAUSE, LONGEST_PAUSE, draw), left)


class Retries:
    """The retries of one clone, until `budget` seconds after the first failure."""

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
        """Wait before the next try, at least `least` seconds; return False if the budget allows no other."""
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
