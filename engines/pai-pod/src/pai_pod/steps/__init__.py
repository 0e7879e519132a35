"""Init steps: what each gets, and what it leaves for those after it.

A step is a module with a function ``run``. Its first argument is the `Pod`. The types of the others say what
it needs of the steps before it: a result that one of them has left, or, with ``| None``, one that may be
missing. What ``run`` returns, unless it is None, is a result for the steps after it. A step that fails raises
`pai_pod.errors.InitFailed`, with the exit code of init. With a function ``skipped``, which gets the pod and
returns a reason or an empty text, a step is skipped in pods that it is not for.

The steps that any platform can use are modules of this package. A distribution brings steps of its own by
entry points in the group `GROUP`: the name that stands in a cluster's list of init plugins, and the module.
It has a plugin, too, by which a policy allows or refuses it; nothing of it is imported before.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from pai_document.problems import Problems
from pai_pod.directories import Directories
from pai_pod.init_log import InitLog
from pai_pod.peers import Peers
from pai_runtime.host.host import Host
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.build import Draft, PlannedRole
from pai_runtime.plan.environment import Placement, TaskName
from pai_task.folder import Folder
from pai_task.plan import Command
from pai_task.record import record

GROUP: Final = "pai_pod.init_steps"
"""The group of entry points in which distributions name their steps."""


@record(frozen=True)
class Pod:
    """The pod that init works in; `init` and `runtime` are the open directories of these names.

    `peers` says how the tasks reach each other, in a pod that an engine made from a job. `is_command_given`
    means that the platform gives the command of the task, with resolved references.
    """

    environment: Mapping[str, str]
    directories: Directories
    init: Folder
    runtime: Folder
    host: Host
    log: InitLog
    problems: Problems
    peers: Peers | None = None
    is_command_given: bool = False


class PlatformJob(ABC):
    """What the platform knows of the job that the pod belongs to."""

    @property
    @abstractmethod
    def job_file(self) -> str | None:
        """The text of the job file, with masked secrets; None if the platform has none."""

    @property
    @abstractmethod
    def attempt(self) -> str:
        """What no other attempt of a run of any job has."""

    @property
    def has_tai64n_names(self) -> bool:
        """Whether earlier files of a task's logs have to be named as by multilog."""
        return False

    @abstractmethod
    def task(self, job: Job, pod: Pod) -> TaskName:
        """Return the task that the pod is. Raises `pai_pod.placement.UnknownTask`."""

    @abstractmethod
    def placement(self, job: Job, pod: Pod) -> Placement:
        """Return where the tasks of the job are. Raises `InitFailed` and `pai_pod.placement.UnknownTask`."""


@record(frozen=True)
class UnknownPlatform:
    """The reason why a step that knows the platform of a pod, if it has any, is unavailable."""

    reason: str


@record(frozen=True)
class LoadedJob:
    """The job, and what planning needs of each of its task roles."""

    job: Job
    roles: tuple[PlannedRole, ...]

    @property
    def secrets(self) -> dict[str, str]:
        """The values of the job's secrets by their paths."""
        return secret_values(self.job.secrets)


@record(frozen=True)
class Addresses:
    """The addresses of the tasks that were found."""

    by_task: Mapping[TaskName, str]


@record(frozen=True)
class PlannedTask:
    """The task of the pod, with all that its plan is made of but the command of a platform."""

    draft: Draft


@record(frozen=True)
class GivenCommand:
    """The command that the platform gives to the task, which stands for that of the job."""

    command: Command
