"""Events of a run that deserve a line of their own."""

from collections.abc import Iterator

from pai_runtime.runs.reader import Activity
from pai_runtime.runs.state import Run
from pai_runtime.terminal.times import time_span
from pai_runtime.terminal.words import kept

LONG = 10.0
"""Seconds that a step of the setup, or a callback, takes before that is news."""


class Announcements:
    """Tells once of each service that people can reach, and of each task that is kept after its end."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def of(self, run: Run, activities: Activity) -> Iterator[str]:
        """What has happened since the last time."""
        for task in run.tasks:
            progress = activities[task.name]
            addresses = progress.addresses if progress else {}
            for text in (
                *(f"{task.name} serves {name} at {at}" for name, at in addresses.items()),
                kept(task, progress),
            ):
                if text and text not in self._told:
                    self._told.add(text)
                    yield text


class LongSteps:
    """Tells of each step beside the command that takes long: after `LONG`, then each time twice as late."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, float], float] = {}

    def of(self, run: Run, activities: Activity, now: float) -> Iterator[str]:
        """The steps to tell of at the time `now` (seconds since 1970)."""
        for task in run.tasks:
            progress = activities[task.name]
            if progress is None or progress.phase in ("command", "held", "lingering", "ended"):
                continue
            step, took = (task.name, progress.since), now - progress.since
            if took >= self._next.get(step, LONG):
                self._next[step] = LONG
                while self._next[step] <= took:
                    self._next[step] *= 2
                use = f", '{progress.use}'," if progress.use else ""
                yield f"{task.name} has been in {progress.phase}{use} for {time_span(took)}"
