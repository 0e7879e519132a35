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
from pai_runtime.runs.errors import ClusterError
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
    """The way in which a job is to be run on a cluster.

    `overrides` are the command line's changes of the job. `code` is the content of each task's working
    directory when it starts. `definitions` is a lock file with all definitions that the job requires; empty
    if it requires none.
    """

    user: str
    overrides: Overrides = NO_OVERRIDES
    code: Code | None = None
    definitions: str = ""


@record(frozen=True)
class Manifests:
    """The objects of a run for the cluster, in the order in which they have to be created.

    `objects` hold no secret value; `secrets` are those that do.
    """

    objects: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]


class Cluster(Protocol):
    """A cluster, as one profile uses it."""

    def new_run(self, request: ClusterRequest) -> "NewClusterRun":
        """Return a run that is not submitted yet."""

    def open_run(self, name: str) -> "ClusterRunReader":
        """Return a reader of the run of this name, whoever submitted it, without checking that it exists."""

    def runs(self) -> Sequence[tuple["ClusterRunReader", Run | Unreadable]]:
        """Return all runs, newest first. Raises `ClusterError`.

        Calls in quick succession, such as every second, share the answers of the cluster.
        """


class NewClusterRun(Protocol):
    """A run that is not submitted yet; `place` has to be called first."""

    def place(self, job: Job) -> Placement:
        """Return the placement of the job's tasks as far as it is known: names, not yet addresses."""

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        """Report what this cluster cannot give to the job.

        Without `ask`, only the profile decides. Raises `ClusterError` if the cluster cannot be asked.
        """

    def manifests(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], *, name: str | None = None
    ) -> Manifests:
        """Return what would be submitted; except for `Manifests.secrets`, the same bytes for the same job.

        `name` is that of the run; without it, the name is derived from the job and its content. `secrets` has
        the values by the paths in the plans. Raises `CannotRun`.
        """

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> str:
        """Start the run, and return its name.

        Raises `CannotRun`; nothing is left on the cluster then, unless it is a `MayBeLeft`.
        """


class ClusterRunReader(RunReader, Protocol):
    """A run on a cluster."""

    def follow(self, view: View, keep: Path | None = None) -> tuple[Run, int]:
        """Show the run until it is over, or Ctrl-C, which leaves it running; return run and exit status.

        The exit status is the job's, or 130 after Ctrl-C. What is read of the run is kept on this machine,
        for when the cluster no longer has it: in the empty directory `keep`, or in one of the engine's.
        Raises `ClusterError`.
        """
