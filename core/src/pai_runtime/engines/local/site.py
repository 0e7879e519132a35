"""The place where the tasks of a local run run: what the run asks of it."""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping

from pai_runtime.engines.local.environment import not_set, secrets_among
from pai_runtime.engines.local.request import LocalRequest
from pai_runtime.engines.local.task import TaskSettings
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement, TaskName
from pai_task.folder import Folder
from pai_task.placeholders import platform_path
from pai_task.plan import Plan
from pai_task.supervisor.process_tree import reaped


class Site(ABC):
    """The place of the tasks of a run of `job` in `folder`: this machine itself, or containers on it.

    It is asked for `placement`, `check` and `settings` in this order. `helpers` are the children of this
    process that are no tasks.
    """

    helpers: Collection[int] = ()
    only: TaskName | None = None
    """The one task of the job that has its place here; None: all of them."""

    def __init__(self, job: Job, folder: Folder, wanted: LocalRequest) -> None:
        self.job = job
        self.folder = folder
        self.wanted = wanted

    @abstractmethod
    def placement(self, ports: Iterable[int]) -> Placement:
        """Return the placement of all tasks; `ports` are those that are free on this machine.

        Raises `CannotRun`.
        """

    @abstractmethod
    def check(self, plans: Mapping[TaskName, Plan]) -> None:
        """Check that this place has what the tasks need, and say what may surprise people.

        Raises `CannotRun`.
        """

    @abstractmethod
    def settings(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> TaskSettings:
        """Return the settings that the tasks with these plans share. Raises `CannotRun`."""

    @abstractmethod
    def close(self) -> None:
        """Release what is there for the run; no task is left by then."""

    def ended(self) -> Iterator[tuple[int, int]]:
        """Return the ids and wait statuses of each task that has ended, and of other children that have.

        It is asked once a child has ended, or a signal has arrived.
        """
        return reaped()

    def cancelled(self, number: int) -> None:  # noqa: B027 - most need not know it
        """Take notice that a signal of this number is to end the run, before the tasks are told to."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The variables of the user's environment that the tasks are to have."""
        return (*self.job.environment, *self.wanted.environment)

    def say_not_set(self) -> None:
        """Say which variables the tasks are to have and are unset."""
        for name in not_set(self.asked):
            self.wanted.say(f"the variable {name} is unset here, so the tasks do not get it")

    def all_secrets(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the secrets of the job with those of the platform, by their paths."""
        asked = {name for plan in plans.values() for use in plan.uses for name in use.secrets}
        of_run = {platform_path("run"): os.urandom(32).hex()} if "run" in asked else {}
        hidden = {platform_path(name): value for name, value in secrets_among(self.asked).items()}
        return {**secrets, **of_run, **hidden}
