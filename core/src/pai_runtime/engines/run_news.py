"""What happens to a run that is worth a line of its own."""

from collections.abc import Iterator

from pai_runtime.engines.run_state import Doing, Run
from pai_runtime.engines.run_words import duration, held

LONG = 10.0
"""Seconds that a step of the setup, or a callback, takes before that is news."""


class HeldTasks:
    """Tells once of each task that is held for debugging."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def of(self, run: Run, doing: Doing) -> Iterator[str]:
        """What has happened since the last time."""
        for task in run.tasks:
            text = held(task, doing[task.name])
            if text and text not in self._held:
                self._held.add(text)
                yield text


class LongSteps:
    """Tells of each step beside the command that takes long: after `LONG`, then each time twice as late."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, float], float] = {}

    def of(self, run: Run, doing: Doing, now: float) -> Iterator[str]:
        """The steps to tell of at the time `now` (seconds since 1970)."""
        for task in run.tasks:
            progress = doing[task.name]
            if progress is None or progress.phase in ("command", "held", "ended"):
                continue
            step, took = (task.name, progress.since), now - progress.since
            if took >= self._next.get(step, LONG):
                self._next[step] = LONG
                while self._next[step] <= took:
                    self._next[step] *= 2
                use = f", '{progress.use}'," if progress.use else ""
                yield f"{task.name} has been in {progress.phase}{use} for {duration(took)}"
