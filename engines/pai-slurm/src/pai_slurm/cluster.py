"""A Slurm cluster as an engine profile describes its use."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pai_runtime.engine import (
    CannotRun,
    ClusterError,
    Engine,
    Job,
    MayBeLeft,
    NewRun,
    Option,
    Placement,
    Plan,
    Problems,
    Profile,
    Rendered,
    Run,
    RunReader,
    RunRequest,
    Unreadable,
)
from pai_runtime.engine.local import Folder, TaskName, local_environment, placement
from pai_runtime.engine.submitting import write_submission
from pai_slurm.checks import check_cluster, check_images, check_job, check_storages
from pai_slurm.commands import Refused, call
from pai_slurm.images import Images
from pai_slurm.profile import read_profile
from pai_slurm.queue import Queue
from pai_slurm.reader import SlurmRunReader
from pai_slurm.script import COMMENT, batch_script
from pai_slurm.submitted import Settings, is_name, new_folder, note_job, note_settings, note_submission
from pai_slurm.times import TIME_LIMIT

_TIME: Final = "time-limit"
_REQUEUE: Final = "requeue"
_UNNAMED: Final = "run"
_BUNDLES: Final = ".bundles"
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
            _TIME, "time limit of the allocation, such as 30 (minutes), 2:00:00 or 1-12", "TIME", _time_limit
        ),
        Option(_REQUEUE, "let Slurm start the job again after preemption or the loss of a node"),
    )
    cannot = _CANNOT
    has_own_plugins = False
    keeps_provenance = True

    def __init__(self, profile: Profile) -> None:
        self.profile = read_profile(profile)
        self._queue = Queue()

    def new_run(self, request: RunRequest) -> "NewSlurmRun":
        """Return a run that is not submitted yet."""
        return NewSlurmRun(self, request)

    def open_run(self, name: str) -> SlurmRunReader:
        """Return the run of this name."""
        return SlurmRunReader(self.profile.runs, name, self.profile.name, self._queue)

    def runs(self) -> Sequence[tuple[RunReader, Run | Unreadable]]:
        """Return the runs in the directory of the profile, newest first."""
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


class NewSlurmRun(NewRun):
    """A run of a job that is not submitted yet."""

    def __init__(self, cluster: SlurmCluster, request: RunRequest) -> None:
        self._cluster = cluster
        self._request = request

    def place(self, job: Job) -> Placement:
        """Return a placement to look at plans by: where tasks are is known in the allocation."""
        self._job = job
        ports = iter(range(20000, 65536))
        profile = self._cluster.profile
        found = placement(job, job.name, self._request.user, profile.runs / job.name, ports)
        return replace(found, storages=frozenset(profile.storages))

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        """Report what never can start there."""
        profile = self._cluster.profile
        check_job(self._job, problems, requeues=self._requeues)
        check_storages(self._job, plans, profile, problems)
        if profile.images:
            check_images(self._job, profile.images, problems)
        if ask and not problems.has_errors:
            allocation = self._allocation()
            check_cluster(self._job, profile.runs, allocation, self._script(_UNNAMED), problems)

    def render(
        self,
        plans: Mapping[TaskName, Plan],  # noqa: ARG002 - made again in the allocation
        secrets: Mapping[str, str],  # noqa: ARG002 - as above
        *,
        name: str | None = None,
    ) -> Rendered:
        """Return the batch script."""
        return Rendered(self._script(name or f"{self._job.name}-1"))

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> RunReader:  # noqa: ARG002 - as above
        """Write the directory of the run, and submit its script. Raises `CannotRun` or `MayBeLeft`."""
        try:
            path = new_folder(self._cluster.profile.runs, self._job.name)
        except OSError as error:
            raise CannotRun(
                f"cannot make the directory of the run: {error.filename}: {error.strerror}"
            ) from None
        with Folder.at(path.parent) as runs:
            try:
                with runs.folder(path.name) as folder:
                    write_submission(folder, self._job, self._request, plans.values())
                    note_submission(folder, self._job, self._request.user)
                    note_settings(folder, self._settings())
                    note_job(folder, self._submitted(path))
            except MayBeLeft:
                raise
            except BaseException as error:
                runs.remove(path.name)
                if isinstance(error, OSError):
                    raise CannotRun(f"{error.filename}: {error.strerror}") from None
                raise
        return self._cluster.open_run(path.name)

    def _settings(self) -> Settings:
        storages = {name: str(path) for name, path in self._cluster.profile.storages.items()}
        return Settings(self._images(), storages, self._requeues)

    @property
    def _requeues(self) -> bool:
        return self._cluster.profile.requeues or bool(self._request.options.get(_REQUEUE))

    def _images(self) -> Images | None:
        """Return how images are run, with the bundle for them, which all nodes see."""
        images = self._cluster.profile.images
        if images is None:
            return None
        from pai_pod.engine import CannotBundle, kept_bundle  # noqa: PLC0415 - only what is used is imported

        try:
            bundle = kept_bundle(self._request.say, self._cluster.profile.runs / _BUNDLES)
        except CannotBundle as error:
            raise CannotRun(str(error)) from None
        return replace(images, bundle=str(bundle))

    def _submitted(self, path: Path) -> str:
        """Submit the script, and return the id of the job."""
        script = self._script(path.name)
        try:
            asked = self._job.environment
            said = call("sbatch", "--parsable", text=script, environment=local_environment(asked))
        except Refused as error:
            raise CannotRun(f"sbatch: {error}") from None
        except (ClusterError, KeyboardInterrupt) as error:
            if left := _left_of(path):
                interrupted = isinstance(error, KeyboardInterrupt)
                why = "interrupted" if interrupted else str(error)
                raise MayBeLeft(f"{why}; {left}", interrupted=interrupted) from None
            if isinstance(error, KeyboardInterrupt):
                raise
            raise CannotRun(str(error)) from None
        return said.strip().partition(";")[0]

    def _allocation(self) -> dict[str, str]:
        time_limit = self._request.options.get(_TIME)
        return {**self._cluster.profile.allocation, **({"time": time_limit} if time_limit else {})}

    def _script(self, name: str) -> str:
        runs = self._cluster.profile.runs
        return batch_script(self._job, runs / name, self._allocation(), requeues=self._requeues)


def _left_of(path: Path) -> str:
    """Cancel the job of a directory, if it was submitted; return what may be left, empty if nothing."""
    try:
        said = call("squeue", "--noheader", f"--name={path.name}", "--format=%i|%k")
        for line in said.splitlines():
            job_id, _, comment = line.partition("|")
            if comment == f"{COMMENT}{path}":
                call("scancel", job_id.partition("+")[0])
    except (ClusterError, KeyboardInterrupt):
        return f"its job may have been submitted; to cancel it: scancel --me --name={path.name}"
    return ""
