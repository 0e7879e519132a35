"""A new run on a Slurm cluster: what is checked before its job is submitted, and its submission."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pai_runtime.engine import (
    CannotRun,
    ClusterError,
    Job,
    MayBeLeft,
    NewRun,
    Placement,
    Plan,
    Problems,
    Rendered,
    RunReader,
    RunRequest,
)
from pai_runtime.engine.classes import replace
from pai_runtime.engine.local import Folder, TaskName, local_environment, placement
from pai_runtime.engine.submitting import write_submission
from pai_slurm.checks import check_cluster, check_images, check_job, check_storages
from pai_slurm.commands import Refused, call
from pai_slurm.images import Images
from pai_slurm.profile import REQUEUE, TIME, SlurmProfile
from pai_slurm.script import COMMENT, batch_script
from pai_slurm.submitted import Settings, new_folder, note_job, note_settings, note_submission

_UNNAMED: Final = "run"
_BUNDLES: Final = ".bundles"


class NewSlurmRun(NewRun):
    """A run of a job that is not submitted yet; `open_run` returns a submitted one by its name."""

    def __init__(
        self, profile: SlurmProfile, open_run: Callable[[str], RunReader], request: RunRequest
    ) -> None:
        self._profile = profile
        self._open_run = open_run
        self._request = request

    def place(self, job: Job) -> Placement:
        """Return a placement to look at plans by: where tasks are is known in the allocation."""
        self._job = job
        ports = iter(range(20000, 65536))
        profile = self._profile
        found = placement(job, job.name, self._request.user, profile.runs / job.name, ports)
        return replace(found, storages=frozenset(profile.storages))

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        """Report what never can start there."""
        profile = self._profile
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
            path = new_folder(self._profile.runs, self._job.name)
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
        return self._open_run(path.name)

    def _settings(self) -> Settings:
        storages = {name: str(path) for name, path in self._profile.storages.items()}
        return Settings(self._images(), storages, self._requeues)

    @property
    def _requeues(self) -> bool:
        return self._profile.requeues or bool(self._request.options.get(REQUEUE))

    def _images(self) -> Images | None:
        """Return how images are run, with the bundle for them, which all nodes see."""
        images = self._profile.images
        if images is None:
            return None
        from pai_pod.engine import CannotBundle, kept_bundle  # noqa: PLC0415 - only what is used is imported

        try:
            bundle = kept_bundle(self._request.say, self._profile.runs / _BUNDLES)
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
        time_limit = self._request.options.get(TIME)
        return {**self._profile.allocation, **({"time": time_limit} if time_limit else {})}

    def _script(self, name: str) -> str:
        runs = self._profile.runs
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
