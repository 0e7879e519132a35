"""Start of tasks as steps of the allocation: each is an ``srun``, which is our child in the task's place."""

import fcntl
import json
import os
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pai_runtime.engine.local import PIPED_SUPERVISOR, Folder, Launch, python_argv
from pai_runtime.engine.messages import printable
from pai_slurm.allocation import Place
from pai_slurm.commands import program

if TYPE_CHECKING:
    from pai_slurm.contained import Contained

LOG: Final = "srun.log"
"""The file with what ``srun`` says of a step, in the directory of its task."""

_PIPE: Final = 65536
_MOST_SAID: Final = 8192
_TELLING: Final = ("node fail", "oom", "out of memory", "cancelled at", "killed", "time limit", "preempt")
"""Parts of lines, in small letters, by which srun tells why a step has ended."""
MPI_BY_SSH: Final = {
    "OMPI_MCA_plm": "^slurm",
    "OMPI_MCA_ras": "^slurm",
    "PRTE_MCA_plm": "^slurm",
    "PRTE_MCA_ras": "^slurm",
    "HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
}
"""Variables by which ``mpirun`` reaches the other tasks as on any engine: they are not in its own step."""
_OF_SRUN: Final = ("srun:", "slurmstepd:")
_PASSED: Final = ("SLURM_CLUSTER", "SLURM_CONF", "SLURM_HET", "SLURM_JOB", "SLURM_SUBMIT", "SLURM_WORKING")
"""What begins the names of variables that ``srun`` needs; others are options of the batch script to it."""


class Steps:
    """A launcher of steps, by the directories of tasks; `contained` are those that run in an image.

    The standard input of a step has the secrets, and is then left open: its end tells the task to stop. Any
    signal that srun passes on would reach all processes of the task.
    """

    def __init__(self, places: Mapping[str, Place], contained: "Mapping[str, Contained]") -> None:
        self._places = places
        self._contained = contained
        self._srun = program("srun")
        self._folders: dict[int, str] = {}
        self._inputs: dict[str, int] = {}
        self.told_by_slurm = False
        """Whether Slurm itself has told the steps to end: they are not told twice."""

    def launch(self, what: Launch, folder: Folder, secrets: Mapping[str, str]) -> int:
        """Start the step of a task, and return the process id of its ``srun``. Raises OSError."""
        step = step_argv(self._srun, self._places[what.folder])
        argv = [*step, *self._command(what)]
        inherited = {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
        self._close(what.folder)  # of an earlier attempt
        read, self._inputs[what.folder] = os.pipe()
        log = folder.append(LOG, 0o600)
        try:
            _fill(self._inputs[what.folder], json.dumps(dict(secrets)).encode())
            pid = os.posix_spawn(
                argv[0],
                argv,
                {**inherited, **what.environment},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=[],
            )
            self._folders[pid] = what.folder
            return pid
        finally:
            os.close(read)
            os.close(log)

    def tell(self, pid: int, number: int) -> None:
        """Tell the task of a step to end as a signal would; srun kills its step on SIGTERM."""
        if number == signal.SIGKILL:
            os.kill(pid, signal.SIGTERM)
        elif number == signal.SIGTERM and not self.told_by_slurm:
            self._close(self._folders[pid])

    def _command(self, what: Launch) -> Sequence[str]:
        """Return what a step runs, after further options of srun."""
        image = self._contained.get(what.folder)
        if image is None:
            return python_argv(PIPED_SUPERVISOR, what.folder, what.options)
        from pai_slurm.contained import image_supervisor_argv  # noqa: PLC0415 - only what is used is imported

        return [*image.options, *image.command, *image_supervisor_argv(what.options)]

    def close(self) -> None:
        """Close what is open of steps that have ended."""
        for folder in list(self._inputs):
            self._close(folder)

    def _close(self, folder: str) -> None:
        fd = self._inputs.pop(folder, None)
        if fd is not None:
            os.close(fd)


def _fill(pipe: int, data: bytes) -> None:
    """Write data with its length into a pipe that nobody reads yet. Raises OSError if it is too large."""
    text = b"%d\n" % len(data) + data
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, max(len(text), _PIPE))
    os.write(pipe, text)


def last_words(task: Folder) -> str:
    """Return what srun said of why a step ended, such as the loss of its node; empty if nothing.

    Lines that are not its own are of the program that did not get into the image.
    """
    try:
        with os.fdopen(task.open(LOG), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_SAID))
            lines = file.read(_MOST_SAID).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    told = telling or [line for line in lines if line.strip() and not line.startswith(_OF_SRUN)]
    return printable(told[-1].removeprefix("srun: error: ")) if told else ""


def step_argv(srun: str, place: Place) -> list[str]:
    """Return the arguments of ``srun`` for a task, without its command."""
    shape = place.shape
    return [
        srun,
        *([f"--het-group={place.group}"] if place.group is not None else []),
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={place.node}",
        "--exact",
        f"--cpus-per-task={shape.cpu}",
        *([f"--mem={shape.memory_mb}M"] if shape.memory_mb else []),
        f"--gres=gpu:{shape.gpu}" if shape.gpu else "--gres=none",
        "--input=all",  # which is one; =0 is none in a heterogeneous job of Slurm 24.11
        "--export=ALL",
        "--kill-on-bad-exit=0",
    ]
