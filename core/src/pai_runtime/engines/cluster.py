"""The interface of engines that run jobs elsewhere: on a cluster, as an engine profile says how it is used.

An engine is a plugin whose manifest has a name for it, which profiles call it by, and whose hook `pai_engine`
opens a `Cluster`. It is imported when a profile of it is named, if the policies in force allow it. A run is
named by the profile and a name of its own; all that is known of it is on
the cluster.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pai_runtime.document.problems import Problems
from pai_runtime.engines.code import Code
from pai_runtime.engines.view import View
from pai_runtime.job.model import Job
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.runs.cluster_error import ClusterError
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.task.plan import Plan
from pai_runtime.task.record import record

__all__ = [
    "Cluster",
    "ClusterError",
    "ClusterRequest",
    "ClusterRunReader",
    "Manifests",
    "NewClusterRun",
]


@record(frozen=True)
class ClusterRequest:
    """How a job is to be run on a cluster.

    `overrides`: what the command line changes of the job. `code`: what is in the working directory of each
    task when it starts. `definitions`: a lock file that carries all definitions which the job requires; empty
    if it requires none.
    """

    user: str
    overrides: Overrides = NO_OVERRIDES
    code: Code | None = None
    definitions: str = ""


@record(frozen=True)
class Manifests:
    """The objects of a run as a cluster takes them, in the order in which they are to be created.

    `objects` hold no secret value; `secrets` are those that do.
    """

    objects: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]


class Cluster(Protocol):
    """A cluster, as one profile uses it."""

    def new_run(self, request: ClusterRequest) -> "NewClusterRun":
        """A run that is not submitted yet."""

    def open_run(self, name: str) -> "ClusterRunReader":
        """The run that is called so, whoever has submitted it. It is not looked for yet."""

    def runs(self) -> Sequence[tuple["ClusterRunReader", Run | Unreadable]]:
        """All runs that there are, the latest first; raises `ClusterError`.

        Who asks again and again, as each second, does not make it ask the cluster as often.
        """


class NewClusterRun(Protocol):
    """A run that is not submitted. `place` comes first."""

    def place(self, job: Job) -> Placement:
        """Where the tasks of the job will run, as far as that is known: by names, not yet by addresses."""

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        """Report what this cluster cannot give to the job.

        Unless it is to `ask` the cluster, by the profile alone. Raises `ClusterError` if it cannot be asked.
        """

    def manifests(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], *, name: str | None = None
    ) -> Manifests:
        """What would be submitted: the same bytes for the same job, but for `Manifests.secrets`.

        `name` is that of the run; without, it is made from the job and its content. `secrets`: the values by
        the paths that the plans name. Raises `CannotRun`.
        """

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> str:
        """Start the run; its name.

        Raises `CannotRun`: then nothing is left on the cluster, unless it is a `MayBeLeft`.
        """


class ClusterRunReader(RunReader, Protocol):
    """A run on a cluster."""

    def follow(self, view: View, keep: Path | None = None) -> tuple[Run, int]:
        """Show it until it is over, or until Ctrl-C, which leaves it running: the run, and the exit status.

        The status is the job's; 130 after Ctrl-C. What is read of it is kept on this machine, for when the
        cluster no longer has it: in the empty directory `keep`, or where the engine does. Raises
        `ClusterError`.
        """
