"""Events of a run that deserve a line of their own."""

import re
import time
from collections.abc import Iterator

from pai_document.amounts import counted
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import Activity, RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.times import time_span
from pai_runtime.terminal.words import (
    failed_service,
    kept,
    lacking,
    note_lines,
    noted,
    served_lines,
    stopping,
)

LONG = 10.0
"""Seconds after which a running step of the setup, or a callback, is news."""
SOON = 1.0
"""Seconds after which that is news once the task is told to end."""
_SPREADS = 60.0
"""Seconds after which a note spreads no further."""
_MOST_NAMED = 10
_MOST_TOLD = 1000
"""Maximum number of a cluster's notes that are shown; it may never stop making new ones."""


class Announcements:
    """Announcements, each made once: services found or failed, notes, and tasks kept after their end.

    A service that fails in several tasks for the same reason, or a note of several tasks, is announced for
    the first of them, and for the few of a role that lack a note (`Gaps`); the summary of the run names all.
    """

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._told: set[str] = set()
        self._gaps = Gaps()

    def of(self, run: Run, activities: Activity) -> Iterator[str]:
        """Yield the announcements that are new since the last call."""
        for task in run.tasks:
            for key, text in self._all(task, activities[task.name]):
                if key not in self._told:
                    self._told.add(key)
                    yield text
        yield from self._gaps.of(run, activities, time.monotonic())

    def _all(self, task: RunTask, progress: Progress | None) -> Iterator[tuple[str, str]]:
        """Yield what there is to say of a task, each after the text that says whether it is new."""
        yield from ((text, text) for text in served_lines(task, progress))
        for name, why in progress.failed_services.items() if progress is not None else ():
            yield f"{name} {_said(why)}", failed_service(self._reader, [task.name], name, why)
        for note in progress.notes if progress is not None else ():
            yield _said_at(note), f"{task.name}: {note}"
        if text := kept(self._reader, task, progress):
            yield text, text


class Gaps:
    """The few tasks that lack a note of all others of their role, with where they are.

    They are named once that is known of all of them, or when the note has spread no further for a while:
    each task is judged on its own, some time after the others.
    """

    def __init__(self) -> None:
        self._noted: dict[str, set[str]] = {}
        self._since: dict[tuple[str, ...], float] = {}
        self._told: set[tuple[str, ...]] = set()

    def of(self, run: Run, activities: Activity, now: float) -> Iterator[str]:
        """Yield what is new at the time `now` (seconds)."""
        if run.stopping:
            return
        at: dict[str, str] = {task.name: task.state for task in run.tasks if task.over}
        for name, progress in activities.items():
            for note in progress.notes if progress is not None else ():
                self._noted.setdefault(note, set()).add(name)
            if progress is not None and (place := progress.at or "; ".join(progress.notes)):
                at[name] = place
        for note, named in self._noted.items():
            others = lacking(run.tasks, named)
            key = note, *(task.name for task in others)
            is_settled = now - self._since.setdefault(key, now) >= _SPREADS
            if others and key not in self._told and (is_settled or all(each.name in at for each in others)):
                self._told.add(key)
                yield noted(note, [task.name for task in run.tasks if task.name in named], others, at)


class Notes:
    """New notes of a cluster about tasks, such as why they wait.

    A text that differs in numbers only is not new: queues and schedulers keep counting.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def of(self, run: Run) -> Iterator[str]:
        """Yield the new notes, one line for all tasks with the same note, limited in number."""
        waiting = (task for task in run.tasks if task.note and not task.over)
        noted = [task for task in waiting if _said(task.note) not in self._told]
        if noted and len(self._told) < _MOST_TOLD:
            self._told.update(_said(task.note) for task in noted)
            yield from note_lines(noted)


def _said(note: str) -> str:
    """Return a note with its numbers normalised, for comparison."""
    return re.sub(r"\d+", "0", note)


def _said_at(note: str) -> str:
    """Return a note with its numbers normalised, but those of lines of code: another line is news."""
    return re.sub(r"(?<![:\d])\d+", "0", note)


class LongSteps:
    """Lines about steps that take long, other than the command, and about everything that is being stopped.

    A step is reported after `LONG` seconds, or after `SOON` if it is being stopped, then each time twice as
    late; a task reported as being stopped is reported once more when it has ended. Of many tasks only some
    are named.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[str, float], float] = {}
        self._stopping: set[str] = set()

    def of(self, run: Run, activities: Activity, now: float) -> Iterator[str]:
        """Yield the lines for the time `now` (seconds since 1970)."""
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
    """Describe what a task has been doing."""
    if progress.phase == "ending":
        return "stopping its services"
    use = f", '{progress.use}'," if progress.use else ""
    if how := stopping(progress):
        return f"{how} its {progress.phase}{use}"
    return f"in {progress.phase}{use}"
