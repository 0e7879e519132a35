"""The batch script of a run, which asks for its allocation and starts its run supervisor there. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pai_runtime.engine import Job
from pai_runtime.engine.local import python_argv
from pai_slurm.shapes import Shape, is_array, tasks_by_shape

LOG: Final = "batch.log"
"""The file with what the run supervisor says, in the directory of the run."""
ARRAY_LOG: Final = "batch-%a.log"
"""The same of each element of an array."""
COMMENT: Final = "pai-runtime:"
"""What the comment of a job begins with, before the directory of its run."""

_MODULE: Final = "pai_slurm.batch"


def batch_script(job: Job, folder: Path, allocation: Mapping[str, str], *, requeues: bool = False) -> str:
    """Return the script for a run in a directory; `allocation` has further options of ``sbatch``.

    With `requeues`, Slurm may start it again.
    """
    own = {
        "job-name": folder.name,
        "comment": f"{COMMENT}{folder}",
        "output": str(folder / LOG).replace("%", "%%"),
        "open-mode": "append",
        "requeue" if requeues else "no-requeue": "",
    }
    counts = {shape: len(tasks) for shape, tasks in tasks_by_shape(job).items()}
    if is_array(job):
        ((shape, count),) = counts.items()
        own |= {"array": f"0-{count - 1}", "output": own["output"].replace(LOG, ARRAY_LOG)}
        counts = {shape: 1}
    components = ["\n".join(_component(shape, count, allocation)) for shape, count in counts.items()]
    argv = python_argv(_MODULE, str(folder))
    python = shlex.quote(argv[0])
    missing = shlex.quote(
        f"{argv[0]} is not on this node: pai-runtime has to be installed in a directory that all nodes share"
    )
    return "\n".join(
        [
            "#!/bin/sh",
            *_options(own),
            "\n#SBATCH hetjob\n".join(components),
            "umask 077",
            f"[ -x {python} ] || {{ echo {missing}; exit 1; }}",
            f"exec {_command(argv)}",
            "",
        ]
    )


def _component(shape: Shape, tasks: int, allocation: Mapping[str, str]) -> Iterator[str]:
    asked = {"ntasks": str(tasks), "cpus-per-task": str(shape.cpu)}
    if shape.memory_mb:
        asked["mem-per-cpu"] = f"{shape.memory_per_cpu}M"
    if shape.gpu:
        asked["gpus-per-task"] = str(shape.gpu)
    yield from _options({**allocation, **asked})


def _options(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield f"#SBATCH --{name}={_word(value)}" if value else f"#SBATCH --{name}"


def _word(value: str) -> str:
    """Return a value as ``sbatch`` reads it: a word, or in double quotes."""
    if not any(letter in value for letter in " \"'\\#"):
        return value
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _command(argv: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, argv))
