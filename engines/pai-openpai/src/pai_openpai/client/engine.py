"""An OpenPAI cluster as an engine profile describes its use."""

import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from pai_network.fields import mappings, string
from pai_openpai.client.api import Api
from pai_openpai.client.cluster_checks import check_cluster
from pai_openpai.client.job_view import listed_run
from pai_openpai.client.names import split_name
from pai_openpai.client.profile import read_profile
from pai_openpai.client.reader import KEEPS, OpenpaiRunReader
from pai_openpai.client.submission import submit
from pai_openpai.submission_check import check_submission, warn_of_code
from pai_openpai.submitted_code import SubmittedCode, submitted_code
from pai_openpai.submitted_text import SubmittedText, submitted_text
from pai_runtime.engine import (
    CannotRun,
    Engine,
    Job,
    MayBeLeft,
    NewRun,
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
from pai_runtime.engine.code import release_code
from pai_runtime.engine.jobs import VOLUME
from pai_runtime.engine.local import TaskName, placement

_MOST_RUNS: Final = 500
_LIST_EVERY: Final = 5.0
_EXAMPLE_SUFFIX: Final = "_00000000"
"""As long as what the name of a run has after its job's, so that the size is that of what is posted."""
_EXAMPLE_SUBMISSION: Final = "0" * 32
"""As long as the number of a submission, for the same reason."""
_MOST_OF_USE: Final = 128
"""Characters of the name by which a run uses code, beside the archive's in the name of a file."""
_CANNOT: Final = {
    "rm": KEEPS,
    "prune": KEEPS,
    "cp": "OpenPAI reads no files of tasks; have the job write to a storage",
    "stacks": "OpenPAI lets people enter a container by ssh alone; pai-runtime exec says how",
    "--share": "OpenPAI shows all jobs and their logs to all its users",
    "--task": "all tasks of a job run; for fewer of them, use --role-instances",
    "--timeout": "set extras.timeout in the job, such as 2h",
    "--out": "nothing of the run is kept here",
    "--isolation": "each task has a container of its own",
    "--env": "OpenPAI takes no variables; use parameters or secrets of the job",
    "--storage": "the storages are the cluster's; name them in extras.storages",
    "--storage-config": "the storages are the cluster's; name them in extras.storages",
}


class OpenpaiCluster(Engine):
    """The cluster of a profile; it is asked only when needed."""

    cannot = _CANNOT

    def __init__(self, profile: Profile) -> None:
        self.profile = read_profile(profile)
        self._listed = -_LIST_EVERY
        self._runs: Sequence[tuple[RunReader, Run | Unreadable]] = ()

    @cached_property
    def api(self) -> Api:
        """The client of the cluster's API."""
        return Api(self.profile)

    def new_run(self, request: RunRequest) -> "NewOpenpaiRun":
        """Return a run that is not submitted yet."""
        return NewOpenpaiRun(self, request)

    def open_run(self, name: str) -> OpenpaiRunReader:
        """Return the run of this name: one of the user's own, or ``USER~NAME``."""
        return OpenpaiRunReader(self.api, name)

    def user(self, here: str) -> str:  # noqa: ARG002 - it is the token's, whoever that is here
        """Return the name of the user on the cluster. Raises `ClusterError`."""
        return self.api.user

    def runs(self) -> Sequence[tuple[RunReader, Run | Unreadable]]:
        """Return the newest runs of the user, newest first."""
        if time.monotonic() >= self._listed + _LIST_EVERY:
            found = self.api.get("/jobs", what="list your jobs", username=self.api.user, limit=_MOST_RUNS)
            named = ((string(each, "name"), each) for each in mappings(found))
            self._runs = [
                (self.open_run(name), listed_run(each)) for name, each in named if split_name(name, "own")
            ]
            self._listed = time.monotonic()
        return self._runs


class NewOpenpaiRun(NewRun):
    """A run of a job that is not submitted yet."""

    def __init__(self, cluster: OpenpaiCluster, request: RunRequest) -> None:
        self._cluster = cluster
        self._request = request
        self._storages: Collection[str] | None = None
        self._packed: SubmittedCode | None = None

    def place(self, job: Job) -> Placement:
        """Return a placement to look at plans by: where tasks are is known on the cluster."""
        self._job = job
        ports = iter(range(15000, 65536))
        return placement(job, job.name, self._request.user, Path(VOLUME), ports)

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        """Report what the cluster would refuse, or spoil."""
        if ask and not problems.has_errors:
            has_code = self._request.code is not None
            self._storages = check_cluster(self._cluster.api, self._job, plans, problems, has_code=has_code)
        profile = self._cluster.profile
        check_submission(
            self._job, problems, is_first_runtime=profile.is_first_runtime, plugins=profile.plugins
        )
        with problems.caught():
            self._example(self._checked_code(plans, problems), plans)

    def _checked_code(self, plans: Mapping[TaskName, Plan], problems: Problems) -> SubmittedCode | None:
        """Return the code unless there are errors; report what is wrong with it. Raises `InvalidInput`."""
        if self._request.code is None or problems.has_errors:
            return None
        warn_of_code(self._job, problems, is_stored=bool(self._cluster.profile.code_storage))
        try:
            return self._code(plans)
        except CannotRun as error:
            where = self._job.code or self._job.value.at(("extras", "code"))
            problems.add(where.problem("code-too-large", str(error)))
            return None

    def render(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], *, name: str | None = None
    ) -> Rendered:
        """Return the YAML that would be submitted, its secrets masked, and apart from that as it is."""
        text = self._text(self._code(plans), plans, name or self._job.name)
        return (
            Rendered(text.shown, text.text, ["the job with its secrets"]) if secrets else Rendered(text.shown)
        )

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> OpenpaiRunReader:
        """Submit the job, and return its run. Raises `CannotRun` or `MayBeLeft`."""
        api, code, mounted_at = self._cluster.api, self._code(plans), self._cluster.profile.code_mounted_at
        stored: list[str] = []

        def written(name: str, submission: str) -> str:
            if code is not None and code.storage:
                stored.append(f"{api.user}~{name}"[-_MOST_OF_USE:])
                code.packed.store(mounted_at, stored[-1])
            return self._text(code, plans, name, submission).text

        try:
            return self._cluster.open_run(submit(api, self._job.name, written, secrets.values()))
        except BaseException as error:
            if not isinstance(error, MayBeLeft):
                for each in stored:
                    release_code(mounted_at, each)
            raise

    def _example(self, code: SubmittedCode | None, plans: Mapping[TaskName, Plan]) -> SubmittedText:
        """Return a text of the same size as that of any run. Raises `InvalidInput`."""
        return self._text(code, plans, self._job.name + _EXAMPLE_SUFFIX, _EXAMPLE_SUBMISSION)

    def _text(
        self, code: SubmittedCode | None, plans: Mapping[TaskName, Plan], name: str, submission: str = ""
    ) -> SubmittedText:
        return submitted_text(
            self._job,
            plans,
            name,
            virtual_cluster=self._cluster.profile.virtual_cluster,
            submission=submission,
            storages=self._storages,
            code=code,
        )

    def _code(self, plans: Mapping[TaskName, Plan]) -> SubmittedCode | None:
        """Return the code as it was when it was first packed. Raises `CannotRun` or `InvalidInput`."""

        def size(code: SubmittedCode) -> int:
            return len(self._example(code, plans).text.encode())

        files, storage = self._request.code, self._cluster.profile.code_storage
        if self._packed is None and files is not None:
            self._packed = submitted_code(files, storage, len(self._job.roles), size)
        return self._packed
