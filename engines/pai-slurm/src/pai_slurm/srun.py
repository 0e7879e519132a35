"""The command ``srun`` for a step: its arguments, its start, and what it has said."""

import json
import os
from collections.abc import Mapping
from typing import Final

from pai_runtime.engine.local import Folder, write_secrets
from pai_runtime.engine.messages import printable
from pai_slurm.allocation import Place

LOG: Final = "srun.log"
"""The file with what ``srun`` says of a step, in the directory of its task."""

_MOST_SAID: Final = 8192
_TELLING: Final = ("node fail", "oom", "out of memory", "cancelled at", "killed", "time limit", "preempt")
"""Parts of lines, in small letters, by which srun tells why a step has ended."""
_OF_SRUN: Final = ("srun:", "slurmstepd:")
_PASSED: Final = ("SLURM_CLUSTER", "SLURM_CONF", "SLURM_HET", "SLURM_JOB", "SLURM_SUBMIT", "SLURM_WORKING")
"""What begins the names of variables that ``srun`` needs; others are options of the batch script to it."""


def spawn(
    argv: list[str],
    environment: Mapping[str, str],
    secrets: Mapping[str, str],
    log: int,
    output: int | None = None,
) -> tuple[int, int]:
    """Start an ``srun``, and return its process id and its standard input, which begins with the secrets.

    Its standard output goes to the file `output`, if any. What it says itself goes to `log`, which is closed
    here. Raises OSError.
    """
    inherited = {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
    read, write = os.pipe()
    try:
        write_secrets(write, json.dumps(dict(secrets)).encode())
        pid = os.posix_spawn(
            argv[0],
            argv,
            {**inherited, **environment},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0)
                if output is None
                else (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            setsigmask=[],
        )
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)
        os.close(log)
    return pid, write


def last_words(folder: Folder, log: str = LOG, since: int = 0) -> str:
    """Return what srun said of why a step ended, such as the loss of its node; empty if nothing.

    The first bytes of the log, `since` many, are of earlier steps. Lines that are not its own are of the
    program that did not get into the image.
    """
    try:
        with os.fdopen(folder.open(log), "rb") as file:
            file.seek(max(since, os.fstat(file.fileno()).st_size - _MOST_SAID))
            lines = file.read(_MOST_SAID).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    told = telling or [line for line in lines if line.strip() and not line.startswith(_OF_SRUN)]
    return printable(told[-1].removeprefix("srun: error: ")) if told else ""


def step_argv(srun: str, place: Place, tasks: int = 1) -> list[str]:
    """Return the arguments of ``srun`` for a step of one process with room for tasks, without its command."""
    shape = place.shape
    return [
        srun,
        *([f"--het-group={place.group}"] if place.group is not None else []),
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={place.node}",
        "--exact",
        f"--cpus-per-task={shape.cpu * tasks}",
        *([f"--mem={shape.memory_mb * tasks}M"] if shape.memory_mb else []),
        f"--gres=gpu:{shape.gpu}" if shape.gpu else "--gres=none",
        "--input=all",  # which is one; =0 is none in a heterogeneous job of Slurm 24.11
        "--export=ALL",
        "--kill-on-bad-exit=0",
    ]
