"""Looks at the processes of a task in which nothing has moved for long, to see which of them are stuck."""

import os
import time
from collections.abc import Callable

from pai_hang import processes
from pai_hang.judging import cannot_run, stand_still, stuck, waits_for_others
from pai_hang.places import Look, where

RAREST = 15.0
"""Seconds between two looks at what moves, by default."""
_SHARE = 0.005
"""The share of a processor that looks at a task take at most, by default; with a shorter `after`, more."""
_LOOKS, _CLOSE_LOOKS = 5, 8
"""Further looks at a process that may get on; who loops past one line moves in some of them."""
_LOOKS_SHARE, _CLOSE_LOOKS_SHARE = 0.1, 0.15
"""The time of these looks at least, as a share of `after`."""


class Pace:
    """Pauses so long that what is done between them takes at most a share of a processor."""

    def __init__(self, interval: float) -> None:
        self._share = _SHARE * RAREST / interval
        self._used = self._cpu()

    def wait(self, least: float) -> None:
        """Wait for at least so many seconds, longer if much was done since the last time."""
        used, before = self._cpu(), self._used
        self._used = used
        time.sleep(max(least, (used - before) / self._share))

    @staticmethod
    def _cpu() -> float:
        """Return the seconds of processors that this process and its readers have used."""
        return sum(os.times()[:4])


class Examiner:
    """One examination of a command; `interval` is the time between two looks at who only waits.

    `look` returns all its processes, or at those of earlier looks that it is given.

    Who waits for a lock may wait for a GPU, which the kernel does not tell apart, and who keeps a processor
    busy may too: of both it is seen closely whether they get on.
    """

    def __init__(
        self,
        look: Callable[..., list[Look]],
        pace: Pace,
        after: float,
        interval: float,
        *,
        may_wait: Callable[[int], bool] = processes.may_wait,
        uses_gpu: Callable[[int], bool] = processes.uses_gpu,
    ) -> None:
        self._look = look
        self._pace = pace
        self._after = after
        self._interval = interval
        self._may_wait = may_wait
        self._uses_gpu = uses_gpu

    def found(self, *, is_idle: bool) -> tuple[list[Look], list[Look]]:
        """Return processes that are stuck, and all as they are now; `is_idle`: the processors were idle."""
        looks = self._look()
        waiting: list[Look] = []
        if is_idle and not any(look.process.state == "R" for look in looks):
            looks, waiting = self._waiting(looks)
            if sure := [look for look in waiting if not self._may_be_of_gpu(look)]:
                return sure, looks
            if not any(self._uses_gpu(look.process.pid) for look in looks):
                return [], looks
        elif dead := self._dead(looks):
            return dead, looks
        for look in self._still(waiting or looks, _LOOKS, _LOOKS_SHARE):
            closer = self._look([look], closely=True)
            if not waiting:
                closer = list(filter(waits_for_others, closer))
            if found := self._still(closer, _CLOSE_LOOKS, _CLOSE_LOOKS_SHARE, closely=True):
                return found, looks  # one that is stuck is enough, and each look takes time
            self._pace.wait(0)
        return [], looks

    def _waiting(self, looks: list[Look]) -> tuple[list[Look], list[Look]]:
        """Return all processes a while later, and those that are stuck where they were stuck in `looks`."""
        before = {(look.process.pid, where(look)) for look in stuck(looks, self._may_wait)}
        self._pace.wait(self._interval)
        later = self._look()
        found = [look for look in stuck(later, self._may_wait) if (look.process.pid, where(look)) in before]
        return later, found

    def _dead(self, looks: list[Look]) -> list[Look]:
        """Return processes that cannot run, and have not for a while, whoever else is busy.

        That is all that is known of a program in C whose other ranks keep processors busy while they wait.
        """
        before = {look.process.pid: look for look in looks if cannot_run(look)}
        if not before:
            return []
        self._pace.wait(self._interval)
        later = self._look(list(before.values()))
        return [
            look
            for look in later
            if cannot_run(look)
            and look.process.cpu == before[look.process.pid].process.cpu
            and where(look) == where(before[look.process.pid])
        ]

    def _may_be_of_gpu(self, look: Look) -> bool:
        return look.process.call == "futex" and self._uses_gpu(look.process.pid)

    def _still(self, looks: list[Look], more: int, share: float, *, closely: bool = False) -> list[Look]:
        """Look several times more at some processes; return those that have not moved."""
        pause = share * self._after / more
        while looks and more:
            self._pace.wait(pause)
            looks, more = stand_still([looks, self._look(looks, closely=closely)]), more - 1
        return looks
