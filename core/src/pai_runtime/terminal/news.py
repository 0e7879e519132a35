"""Events of a run that deserve a line of their own."""

import re
from collections.abc import Iterator

from pai_runtime.document.amounts import counted
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import Activity, RunReader
from pai_runtime.runs.state import Run
from pai_runtime.terminal.times import time_span
from pai_runtime.terminal.words import kept, note_lines, stopping

LONG = 10.0
"""Seconds that a step of the setup, or a callback, takes before that is news."""
SOON = 1.0
"""The same once somebody waits for the task to end."""
_MOST_NAMED = 10
_MOST_TOLD = 1000
"""Notes of a cluster that are told of: they are its words, and may never end."""


class Announcements:
    """Tells once of each service that people can reach, and of each task that is kept after its end."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._told: set[str] = set()

    def of(self, run: Run, activities: Activity) -> Iterator[str]:
        """What has happened since the last time."""
        for task in run.tasks:
            progress = activities[task.name]
            addresses = progress.addresses if progress else {}
            for text in (
                *(f"{task.name} serves {name} at {at}" for name, at in addresses.items()),
                kept(self._reader, task, progress),
            ):
                if text and text not in self._told:
                    self._told.add(text)
                    yield text


class Notes:
    """Tells what a cluster says of tasks, such as why they wait, once it says something new.

    Other numbers are nothing new: a queue and a scheduler count anew all the time.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def of(self, run: Run) -> Iterator[str]:
        """What is new; one line for all tasks of which the same is said, and of many lines only some."""
        waiting = (task for task in run.tasks if task.note and not task.over)
        noted = [task for task in waiting if _said(task.note) not in self._told]
        if noted and len(self._told) < _MOST_TOLD:
            self._told.update(_said(task.note) for task in noted)
            yield from note_lines(noted)


def _said(note: str) -> str:
    """What it says, whatever the numbers are."""
    return re.sub(r"\d+", "0", note)


class LongSteps:
    """Tells of each step beside the command that takes long, and of all that is being stopped.

    After `LONG`, or `SOON` for what is being stopped, then each time twice as late; and when a task has ended
    that was told of as being stopped. Of many tasks at once only some are named.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[str, float], float] = {}
        self._stopping: set[str] = set()

    def of(self, run: Run, activities: Activity, now: float) -> Iterator[str]:
        """The steps to tell of at the time `now` (seconds since 1970)."""
        texts = list(self._all(run, activities, now))
        yield from texts[:_MOST_NAMED]
        if len(texts) > _MOST_NAMED:
            yield f"and so on for {counted(len(texts) - _MOST_NAMED, 'more task', 'more tasks')}"

    def _all(self, run: Run, activities: Activity, now: float) -> Iterator[str]:
        for task in run.tasks:
            progress = activities[task.name]
            if task.over and task.name in self._stopping:
                self._stopping.remove(task.name)
                code = f", exit code {task.exit_code}" if task.exit_code is not None else ""
                yield f"{task.name} has ended: {task.state}{code}"
            if progress is None or progress.phase in ("held", "lingering", "ended"):
                continue
            is_stopped = run.stopping or progress.stopping is not None
            if progress.phase == "command" and progress.stopping is None:
                continue
            first = SOON if is_stopped else LONG
            step, took = (task.name, progress.since), now - progress.since
            if took >= self._next.get(step, first):
                self._next[step] = first
                while self._next[step] <= took:
                    self._next[step] *= 2
                if is_stopped:
                    self._stopping.add(task.name)
                yield f"{task.name} has been {_doing(progress)} for {time_span(took)}"


def _doing(progress: Progress) -> str:
    """What a task has been doing."""
    if progress.phase == "ending":
        return "stopping its services"
    use = f", '{progress.use}'," if progress.use else ""
    if how := stopping(progress):
        return f"{how} its {progress.phase}{use}"
    return f"in {progress.phase}{use}"
