"""The running supervisors of a run's tasks, and the processes that a killed one has left behind."""

import os
import select
import time

from pai_runtime.engines.local.site import Site
from pai_runtime.engines.local.task import LocalTask
from pai_task.supervisor.process_tree import GONE_EVERY, GONE_WITHIN, kill_children
from pai_task.supervisor.wake_pipe import WakePipe


class Supervisors:
    """The running supervisors by process id; the helpers of the `site` are not among them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._running: dict[int, LocalTask] = {}
        self._killed: dict[LocalTask, tuple[int, float]] = {}  # wait status, and until when (monotonic)

    def __bool__(self) -> bool:
        return bool(self._running or self._killed)

    def start(self, task: LocalTask, seconds: float | None) -> None:
        """Start the supervisor of a task with a timeout. Raises OSError."""
        self._running[task.start(seconds)] = task

    def wait(self, wake: WakePipe, seconds: float) -> list[tuple[LocalTask, int]]:
        """Wait at most `seconds` for one to end; return the tasks of all that have, with wait statuses."""
        woken = select.poll()
        woken.register(wake.fd, select.POLLIN)
        woken.poll((min(seconds, GONE_EVERY) if self._killed else seconds) * 1000)
        for task in self._running.values():
            task.end_if_overdue()
        wake.clear()
        return [*self._reaped(), *self._cleared_up()]

    def _reaped(self) -> list[tuple[LocalTask, int]]:
        ended = []
        for pid, status in self._site.ended():
            task = self._running.pop(pid, None)
            if task is None:
                continue
            task.forget_process()
            if os.WIFSIGNALED(status):
                self._killed[task] = status, time.monotonic() + GONE_WITHIN
            else:
                ended.append((task, status))
        return ended

    def _cleared_up(self) -> list[tuple[LocalTask, int]]:
        """Return the tasks of killed supervisors, after killing all processes that these would have ended.

        These processes come to us, and what they leave comes to us in turn.
        """
        if not self._killed:
            return []
        left = kill_children(but={*self._running, *self._site.helpers})
        ended = [
            (task, status)
            for task, (status, until) in self._killed.items()
            if not left or time.monotonic() >= until
        ]
        for task, _ in ended:
            del self._killed[task]
        return ended
