"""The parts of a run, each with a run supervisor and a directory: the whole, or the elements of an array."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pai_runtime.engine import Run, RunTask
from pai_runtime.engine.classes import replace
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.local import Folder, LocalRunReader
from pai_slurm.array import read_decision
from pai_slurm.submitted import NODES, Submitted, element_folder, read_job

_MOST_BYTES: Final = 8 * 1024 * 1024


class Part:
    """What a run supervisor keeps of the run `name`, below a directory of the run."""

    def __init__(self, path: Path, name: str) -> None:
        self.folder = path / name
        self.inside = LocalRunReader(self.folder)
        self._path = path
        self._places: Mapping[str, Mapping[str, str]] = {}

    def place(self, task: str) -> Mapping[str, str] | None:
        """Return where a task runs: its ``node``, ``host`` and ``group``; None if that is not known yet."""
        if not self._places:
            self._places = self._read_places()
        return self._places.get(task)

    def forget(self) -> None:
        """Forget where tasks run, since they are started again."""
        self._places = {}

    def job_id(self) -> str:
        """Return the id of the job of this part; empty if it is not known."""
        try:
            with Folder.at(self._path) as folder:
                return read_job(folder)[0]
        except (OSError, ValueError):
            return ""

    def _read_places(self) -> Mapping[str, Mapping[str, str]]:
        try:
            with Folder.at(self.folder) as folder:
                found = loads_untrusted(folder.read(NODES, _MOST_BYTES))
            return {
                str(task): {key: str(value) for key, value in place.items()} for task, place in found.items()
            }
        except (OSError, ValueError, AttributeError):
            return {}


class Elements:
    """The elements of an array, by the tasks that they run; those that have ended are read once."""

    def __init__(self, path: Path, name: str, found: Submitted) -> None:
        self._path = path
        self._waiting = found.waiting
        self._numbers = {task.name: number for number, task in enumerate(found.waiting.tasks)}
        self._parts = {
            task: Part(element_folder(path, number), name) for task, number in self._numbers.items()
        }
        self._over: dict[str, tuple[RunTask, float]] = {}

    def part(self, task: str) -> Part:
        """Return the part of a task."""
        return self._parts[task]

    def told(self, *, is_over: bool = False) -> Run:
        """Return the run as all that have begun tell; it has ended once they have, and one has decided it.

        With `is_over`, those that have not told their end have been killed.
        """
        begun = self._begun()
        tasks = tuple(
            self._told(task) if self._numbers[task.name] in begun else task for task in self._waiting.tasks
        )
        run = replace(self._waiting, tasks=tasks, queued=not begun)
        decision = read_decision(self._path)
        if not decision or (not is_over and any(task.state == "running" for task in tasks)):
            return run
        ends = [at for _, at in self._over.values()]
        return replace(
            run,
            tasks=tuple(task if task.over else replace(task, state="stopped") for task in tasks),
            ended=max(ends, default=self._waiting.started),
            outcome="failed" if decision.get("code") else "succeeded",
            failed_task=str(decision["failed"]) if decision.get("failed") in self._numbers else None,
        )

    def _begun(self) -> set[int]:
        """Return the numbers of the elements that have begun, by one look at a directory."""
        try:
            with Folder.at(element_folder(self._path, 0).parent) as folder:
                return {int(name) for name in folder.names() if name.isdecimal()}
        except OSError:
            return set()

    def _told(self, waiting: RunTask) -> RunTask:
        name = waiting.name
        if name in self._over:
            return self._over[name][0]
        part = self._parts[name]
        run = part.inside.run()
        if not isinstance(run, Run) or not run.tasks:
            return waiting
        place = part.place(name)
        task = replace(run.tasks[0], node=place["node"] if place else "")
        if run.ended is not None:
            self._over[name] = task, run.ended
        return task
