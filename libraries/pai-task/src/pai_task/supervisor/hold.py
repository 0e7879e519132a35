"""The time after a task's end for which it is held for debugging, or kept for its services."""

from __future__ import annotations

import time

from pai_task.layout import RELEASE
from pai_task.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pai_task.supervisor.task import Task
    from pai_task.vocabulary import Kept

_LOOK_EVERY = 0.5
"""Seconds between two checks whether a kept task has been released."""

_WHY = {"held": "for debugging", "lingering": "for its services"}


def hold(task: Task, phase: Kept, seconds: float, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Keep a task as it is for `seconds`, while its services continue.

    This ends early with a file ``release`` in the task's folder, with SIGUSR1 to this process, when the task
    is told to stop, and when `is_wanted` turns false.
    """
    until = time.monotonic() + seconds
    released: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: released.append(number))
    release = f"{task.folder.where}/{RELEASE}"
    task.journal.add(phase, until=time.time() + seconds, release=release)
    task.say(
        f"[WARNING] the task is {phase} for {seconds:g} s {_WHY[phase]}; "
        f"to release it: touch {release}, or kill -USR1 {task.pid}"
    )
    while is_wanted() and not (released or _is_released(task)):
        end = min(until, task.stop.work_until())
        if time.monotonic() >= end:
            break
        task.loop.turn(min(end, time.monotonic() + _LOOK_EVERY))
    signal.signal(signal.SIGUSR1, before)
    task.journal.add("released")
    task.say(f"[INFO] the task is no longer {phase}")


def _is_released(task: Task) -> bool:
    return any(folder.exists(RELEASE) for folder in (task.folder, task.inside))
