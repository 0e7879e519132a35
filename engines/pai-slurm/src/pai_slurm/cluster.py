"""A Slurm cluster as an engine profile describes its use."""

import argparse
import os
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pai_runtime.engine import (
    ClusterError,
    Engine,
    Option,
    Profile,
    Run,
    RunReader,
    RunRequest,
    Unreadable,
)
from pai_slurm.profile import REQUEUE, TIME, read_profile
from pai_slurm.times import TIME_LIMIT

if TYPE_CHECKING:
    from pai_slurm.new_run import NewSlurmRun
    from pai_slurm.queue import Queue
    from pai_slurm.reader import SlurmRunReader

# A plugin's modules are compiled at each start, and what follows a run is not needed to submit it.
# ruff: noqa: PLC0415

_CANNOT: Final = {
    "--share": "the directory of a run has secrets until it begins",
    "--task": "all tasks of a job run; for fewer of them, use --role-instances",
    "--out": "the directories of runs are where the engine profile says",
    "--isolation": "tasks are steps of an allocation, which Slurm isolates as its operator has it",
    "--env": "give the value, too, as in --env NAME=VALUE; or use secrets of the job",
    "--storage": "the storages of a cluster are in its engine profile",
    "--storage-config": "the storages of a cluster are in its engine profile",
}


def _time_limit(text: str) -> str:
    if not re.fullmatch(TIME_LIMIT, text):
        raise argparse.ArgumentTypeError(f"expected minutes, H:MM:SS or D-HH, found {text!r}")
    return text


class SlurmCluster(Engine):
    """The cluster of a profile; it is asked only when needed."""

    options = (
        Option(
            TIME, "time limit of the allocation, such as 30 (minutes), 2:00:00 or 1-12", "TIME", _time_limit
        ),
        Option(REQUEUE, "let Slurm start the job again after preemption or the loss of a node"),
    )
    cannot = _CANNOT
    has_own_plugins = False
    keeps_provenance = True

    def __init__(self, profile: Profile) -> None:
        self.profile = read_profile(profile)

    @cached_property
    def _queue(self) -> "Queue":
        from pai_slurm.queue import Queue

        return Queue()

    def new_run(self, request: RunRequest) -> "NewSlurmRun":
        """Return a run that is not submitted yet."""
        from pai_slurm.new_run import NewSlurmRun

        return NewSlurmRun(self.profile, self.open_run, request)

    def open_run(self, name: str) -> "SlurmRunReader":
        """Return the run of this name."""
        from pai_slurm.reader import SlurmRunReader

        return SlurmRunReader(self.profile.runs, name, self.profile.name, self._queue)

    def runs(self) -> Sequence[tuple[RunReader, Run | Unreadable]]:
        """Return the runs in the directory of the profile, newest first."""
        from pai_slurm.submitted import is_name

        try:
            names = [
                entry.name for entry in os.scandir(self.profile.runs) if entry.is_dir(follow_symlinks=False)
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ClusterError(f"{error.filename}: {error.strerror}") from None
        readers = [self.open_run(name) for name in names if is_name(name)]
        found = [(reader, reader.run()) for reader in readers]
        return sorted(found, key=_started, reverse=True)


def _started(found: tuple[RunReader, Run | Unreadable]) -> tuple[float, int]:
    reader, run = found
    number = reader.named.rpartition("-")[2]
    return run.started if isinstance(run, Run) else 0.0, int(number) if number.isdecimal() else 0
