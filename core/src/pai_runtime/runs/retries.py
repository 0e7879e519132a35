"""Retries of failed tasks and jobs: what decides them, for engines that start their tasks themselves."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from pai_runtime.job.model import Job
from pai_runtime.plan.attempt_variables import Attempt
from pai_runtime.runs.events import RunEvents
from pai_runtime.runs.summary import NOT_RETRIED


class RetriedTask(Protocol):
    """A task of an engine that starts its tasks itself; `code` is the exit code of its last attempt."""

    not_retried: bool
    """Whether it was said that its failure is permanent."""

    @property
    def name(self) -> tuple[str, int]:
        """The task role and the index of the task."""

    @property
    def label(self) -> str:
        """The name for people, such as ``worker/0``."""

    @property
    def attempt(self) -> Attempt:
        """The number of its last attempt."""

    @property
    def code(self) -> int | None:
        """The exit code of its last attempt."""

    def record(self) -> Mapping[str, Any]:
        """Return the exit record of its last attempt; empty if there is none."""

    def prepare_retry(self, attempt: Attempt) -> None:
        """Keep the files of its last attempt, and prepare this one. Raises OSError."""


class Retries:
    """The retries of a run until `deadline` (monotonic clock); `of_job` counts those of the job.

    A task is retried only if the job's tasks need not start together. A failure that is known to be permanent
    is not retried, unless the job says so. `earlier` attempts of the job are no retries.
    """

    def __init__(
        self, job: Job, deadline: float, events: RunEvents, say: Callable[[str], None], earlier: int = 0
    ) -> None:
        self.of_job = 0
        self._job = job
        self._deadline = deadline
        self._events = events
        self._say = say
        self._earlier = earlier

    def attempt(self, of_task: int = 0) -> Attempt:
        """Return an attempt of a task in the attempt of the job that there is now."""
        return Attempt(self._earlier + self.of_job, of_task)

    def retry_task(self, task: RetriedTask, code: int) -> bool:
        """Prepare a task that failed with `code` for another attempt; return whether there is one."""
        most = 0 if self._job.gang else self._job.roles[task.name[0]].retries
        number = task.attempt.of_task + 1
        if number > most or self._is_over(task) or self._is_permanent(task, code):
            return False
        self._say(f"{_failure(task)}; retrying it ({number} of {most})")
        try:
            task.prepare_retry(self.attempt(number))
        except OSError as error:
            directory = error.filename or task.label
            self._say(f"cannot retry task {task.label}: {directory}: {error.strerror}")
            return False
        self._events.task_restarted(task.label, number, code)
        return True

    def retry_job(self, tasks: Collection[RetriedTask], failed: RetriedTask, code: int) -> bool:
        """Prepare a retry of all tasks after `failed` has failed the job; return whether there is one."""
        if self.of_job == self._job.retries or self._is_over(failed) or self._is_permanent(failed, code):
            return False
        self.of_job += 1
        self._say(f"{_failure(failed)}; restarting the job ({self.of_job} of {self._job.retries})")
        try:
            for task in tasks:
                task.prepare_retry(self.attempt())
        except OSError as error:
            self._say(f"cannot restart the job: {error.filename}: {error.strerror}")
            return False
        self._events.job_restarted(self.of_job, failed.label, code)
        return True

    def _is_over(self, task: RetriedTask) -> bool:
        """Return whether no time is left, for the run or, as on a cluster, for what has failed."""
        if time.monotonic() >= self._deadline:
            return True
        return self._job.retry_on != "always" and task.record().get("outcome") == "timeout"

    def _is_permanent(self, task: RetriedTask, code: int) -> bool:
        """Return whether a failure is not retried because it is permanent, and say so once per task."""
        if self._job.retry_on == "always" or task.record().get("behavior") != "PERMANENT":
            return False
        if not task.not_retried:
            task.not_retried = True
            self._say(f"{_failure(task)}; {NOT_RETRIED}")
            self._events.not_retried(task.label, code)
        return True


def _failure(task: RetriedTask) -> str:
    record = task.record()
    message = str(record.get("message", f"exit code {task.code}"))
    if "phrase" in record:
        message += f" ({record['phrase']})"
    return f"task {task.label} failed: {message}"
