"""A task that is kept as it is for a while: for somebody to look at it, or for its services."""

import signal
import time
from collections.abc import Callable

from pai_runtime.supervisor.loop import Loop
from pai_runtime.supervisor.stop import Stop
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import RELEASE
from pai_runtime.task.state import Kept, State

_LOOK_EVERY = 0.5
"""Seconds after which a task that is kept looks whether it has been released."""


class Hold:
    """Keeps a task as it is; its services go on.

    `folders` are the task's own, and what the task has in its place; `pid` is the supervisor's.
    """

    def __init__(
        self,
        folders: tuple[Folder, Folder],
        pid: int,
        loop: Loop,
        stop: Stop,
        state: State,
        say: Callable[[str], None],
    ) -> None:
        self._folders = folders
        self._pid = pid
        self._loop = loop
        self._stop = stop
        self._state = state
        self._say = say

    def keep(
        self, phase: Kept, seconds: float, why: str, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """For so many seconds; `why`, for people.

        It ends before that when a file ``release`` is in one of the folders, with SIGUSR1 to this process,
        when the task is told to stop, and when it is not wanted any more.
        """
        until = time.monotonic() + seconds
        released: list[int] = []
        before = signal.signal(signal.SIGUSR1, lambda number, _frame: released.append(number))
        release = str(self._folders[0].path / RELEASE)
        self._state.set(phase, kept=(time.time() + seconds, release))
        self._say(
            f"[WARNING] the task is {phase} for {seconds:g} s {why}; "
            f"to release it: touch {release}, or kill -USR1 {self._pid}"
        )
        while is_wanted() and not (released or self._is_released()):
            end = min(until, self._stop.work_until())
            if time.monotonic() >= end:
                break
            self._loop.turn(min(end, time.monotonic() + _LOOK_EVERY))
        signal.signal(signal.SIGUSR1, before)
        self._say(f"[INFO] the task is not {phase} any more")

    def _is_released(self) -> bool:
        return any(folder.exists(RELEASE) for folder in self._folders)
