"""Starting tasks as steps of the allocation: one ``srun`` for each task, or one for many that are alike."""

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pai_runtime.engine.local import PIPED_SUPERVISOR, Folder, Launch, python_argv
from pai_slurm.allocation import Place
from pai_slurm.commands import program
from pai_slurm.group_step import GroupStep
from pai_slurm.srun import LOG, last_words, spawn, step_argv

if TYPE_CHECKING:
    from pai_slurm.contained import Contained

_MANY: Final = 8
"""The least number of tasks of one node that share a step."""
_ENDS_WITHIN: Final = 10.0
"""Seconds for steps without tasks to end; then they are killed."""
MPI_BY_SSH: Final = {
    "OMPI_MCA_plm": "^slurm",
    "OMPI_MCA_ras": "^slurm",
    "PRTE_MCA_plm": "^slurm",
    "PRTE_MCA_ras": "^slurm",
    "HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
}
"""Variables by which ``mpirun`` reaches the other tasks as on any engine: they are not in its own step."""


class Steps:
    """A launcher of the tasks of a `run`, by their directories; `contained` are those that run in an image.

    Each is a step, but where many are alike on one node, and have no GPUs, these share one. The standard
    input of a step has the secrets, and is then left open: its end tells the task to stop. Any signal that
    srun passes on would reach all processes of the task.
    """

    def __init__(
        self, run: Folder, places: Mapping[str, Place], contained: "Mapping[str, Contained]"
    ) -> None:
        self._run = run
        self._places = places
        self._contained = contained
        self._srun = program("srun")
        self._folders: dict[int, str] = {}
        self._inputs: dict[str, int] = {}
        self._groups = self._grouped()
        self._shared = set(self._groups.values())
        self._of_groups: dict[int, GroupStep] = {}
        self.told_by_slurm = False
        """Whether Slurm itself has told the steps to end: they are not told twice."""

    @property
    def groups(self) -> Collection[int]:
        """The process ids of ``srun`` whose steps have many tasks."""
        return {group.pid for group in self._shared if group.pid is not None}

    def launch(self, what: Launch, folder: Folder, secrets: Mapping[str, str]) -> int:
        """Start a task, and return the process id of its ``srun``, or a number below 0. Raises OSError."""
        if group := self._groups.get(what.folder):
            number = -1 - len(self._of_groups)
            group.launch(number, what, secrets)
            self._of_groups[number] = group
            return number
        place = self._places[what.folder]
        self._close(what.folder)  # of an earlier attempt
        argv = [*step_argv(self._srun, place), *self._command(what)]
        log = folder.append(LOG, 0o600)
        pid, self._inputs[what.folder] = spawn(argv, what.environment, secrets, log)
        self._folders[pid] = what.folder
        return pid

    def tell(self, pid: int, number: int) -> None:
        """Tell the task of a step to end as a signal would; srun kills its step on SIGTERM."""
        if number == signal.SIGTERM and self.told_by_slurm:
            return
        if pid < 0 and number in (signal.SIGTERM, signal.SIGKILL):
            self._of_groups[pid].tell(pid, number)
        elif number == signal.SIGKILL:
            os.kill(pid, signal.SIGTERM)
        elif number == signal.SIGTERM:
            self._close(self._folders[pid])

    def ended(self, children: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the tasks that have ended, with wait statuses; `children` are the processes that have."""
        for group in self._shared:
            yield from group.ended()
        for pid, status in children:
            ended = next((each for each in self._shared if each.pid == pid), None)
            if ended is None:
                yield pid, status
            else:
                yield from ended.has_ended(status)

    def _grouped(self) -> "dict[str, GroupStep]":
        """Return the steps of those tasks that share one, by their directories."""
        alike: dict[Place, list[str]] = {}
        for folder, place in self._places.items():
            if folder not in self._contained and not place.shape.gpu:
                alike.setdefault(place, []).append(folder)
        found: dict[str, GroupStep] = {}
        for place, folders in alike.items():
            if len(folders) >= _MANY:
                group = GroupStep(step_argv(self._srun, place, len(folders)), place, len(folders), self._run)
                found |= dict.fromkeys(folders, group)
        return found

    def _command(self, what: Launch) -> Sequence[str]:
        """Return what a step runs, after further options of srun."""
        image = self._contained.get(what.folder)
        if image is None:
            return python_argv(PIPED_SUPERVISOR, what.folder, what.options)
        from pai_slurm.contained import image_supervisor_argv  # noqa: PLC0415 - only what is used is imported

        return [*image.options, *image.command, *image_supervisor_argv(what.options)]

    def last_words(self, task: Folder) -> str:
        """Return what srun said of why the step of a task ended; empty if nothing."""
        group = self._groups.get(str(task.path))
        return group.last_words(str(task.path)) if group else last_words(task)

    def close(self) -> None:
        """Close what is open of steps that have ended, and end those that many tasks shared."""
        for folder in list(self._inputs):
            self._close(folder)
        for group in self._shared:
            group.close()
        until = time.monotonic() + _ENDS_WITHIN
        for group in self._shared:
            group.wait(until)

    def _close(self, folder: str) -> None:
        fd = self._inputs.pop(folder, None)
        if fd is not None:
            os.close(fd)
