"""What a job wants done before its command is told to end, so that its work is saved (``onPreemption``)."""

from __future__ import annotations

import time

from pai_task.signals import signal
from pai_task.supervisor.ending import ProcessTree
from pai_task.supervisor.spawning import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_task.plan import OnPreemption
    from pai_task.supervisor.loop import Child
    from pai_task.supervisor.spawning import Program
    from pai_task.supervisor.task import Task

_LOOK_EVERY = 0.1
"""Seconds between two looks at the processes that save their work."""


def save_work(task: Task, wanted: OnPreemption, script: Program | None, child: Child) -> bool:
    """Let a command save its work, and note whether that was completed; return whether it has ended.

    A signal goes to the processes that handle it. It has done its work once they have ended, and the script
    once it has succeeded.
    """
    began = time.monotonic()
    until = began + wanted.seconds
    tree = ProcessTree(child.pid)
    handling, told = _told(tree, wanted.signal)
    what = f"{wanted.signal} to {len(handling)} processes that handle it" if wanted.signal else "its commands"
    task.say(f"[INFO] onPreemption: {what}, for at most {wanted.seconds:g} s")
    saver = _start(task, script) if script else None
    while tree.left(told) or (saver and saver.ended is None):
        now = time.monotonic()
        if now >= until or task.stop.at_once:
            break
        task.loop.turn(min(until, now + _LOOK_EVERY))
    has_succeeded = script is None or bool(saver and saver.ended and saver.ended.code == 0)
    is_complete = has_succeeded and not tree.left(told) and bool(handling or not wanted.signal)
    if saver and saver.ended is None:
        saver.signal_group(signal.SIGKILL)
    took = time.monotonic() - began
    task.stop.has_saved(took)
    task.progress.preemption = {"completed": is_complete, "seconds": round(took, 3)}
    how = "[INFO] onPreemption completed" if is_complete else "[WARNING] onPreemption did not complete"
    task.say(f"{how} in {took:.1f} s")
    return child.ended is not None and not tree.left()


def _told(tree: ProcessTree, name: str) -> tuple[list[int], list[int]]:
    """Send a signal; return the processes that handle it, and those to wait for."""
    if not name:
        return [], []
    number = int(getattr(signal, name))
    handling = tree.handling(number)
    told = tree.told_first() if number == signal.SIGTERM else handling
    tree.signal(number, told)
    return handling, told


def _start(task: Task, script: Program) -> Child | None:
    try:
        output = task.loop.pipe(task.logs.runtime_stream("onPreemption"))
        return task.loop.spawn(script, output, output)
    except CannotStart as error:
        task.say(f"[ERROR] cannot start the commands of onPreemption: {error}")
        return None
