"""What happens to a run that is worth a line of its own."""

from collections.abc import Iterator
from pathlib import Path

from pai_runtime.engines.run_state import Doing, Run, read_exit_record, task_folder
from pai_runtime.engines.run_words import duration, held
from pai_runtime.engines.terminal_text import shown_line

LONG = 10.0
"""Seconds that a step of the setup, or a callback, takes before that is news."""


class RunNews:
    """Tells each thing once: what was begun again, and which task is held for debugging."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._retries = 0
        self._task_retries: dict[str, int] = {}
        self._held: set[str] = set()

    def of(self, run: Run, doing: Doing) -> Iterator[str]:
        """What has happened since the last time."""
        if run.retries > self._retries:
            self._retries = run.retries
            yield f"the job has failed and is begun again (retry {run.retries})"
        for task in run.tasks:
            own = task.retries - run.retries  # those of the job count as its tasks' too
            if own > self._task_retries.get(task.name, 0):
                self._task_retries[task.name] = own
                record = read_exit_record(
                    task_folder(self._folder, task) / "attempts" / str(task.retries - 1)
                )
                why = f": {shown_line(str(record['message']).encode())}" if "message" in record else ""
                yield f"{task.name} has failed and is begun again (retry {own}){why}"
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
