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
"""What certainly says that another try ends the same way. All other words differ from version to version."""
_ANSWER, _QUESTION = "<= Recv header: HTTP/", "=> Send header"
_RETRY_AFTER = re.compile(r"<= Recv header: retry-after:[ \t]*(.*)", re.IGNORECASE)


def is_final(words: str, trace: str) -> bool:
    """Whether git, with these words and this trace of its requests, would fail again on another try."""
    words = _QUOTED.sub("", words)
    statuses = _STATUS.findall(words) or _last_status(trace)
    return any(map(_FINAL_STATUS.fullmatch, statuses)) or bool(_FINAL.search(words))


def asked_pause(trace: str, now: float) -> float:
    """The seconds that the last answer in git's trace asks to wait, at `now` (since the epoch); else 0."""
    found = _RETRY_AFTER.search(_last_answer(trace))
    return retry_after(found[1], now) if found else 0


def _last_answer(trace: str) -> str:
    """The trace from the last answer on; all of it, if there is none."""
    return trace.rpartition(_ANSWER)[2]


def _last_status(trace: str) -> list[str]:
    """The status of the answer after which nothing was asked, if there is one."""
    before, _, last = trace.rpartition(_ANSWER)
    _, _, status = last.partition("\n")[0].partition(" ")
    return [status[:3]] if before and _QUESTION not in last else []


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
