"""The events of a run as a whole: ``events.jsonl`` in its directory; each task has its own file.

``events.schema.json`` says what is in them. Of what a task wrote or was told there is nothing in them.
"""

from pai_runtime.runs.state import Run
from pai_runtime.task.events import EventFile
from pai_runtime.task.folder import Folder


class RunEvents:
    """Appends to the events of a run; what cannot be written is lost, and hurts nothing."""

    def __init__(self, folder: Folder) -> None:
        self._file = EventFile(folder)

    def task_restarted(self, task: str, number: int, code: int) -> None:
        """A task that failed with `code` is retried, for the `number`-th time in this attempt of the job."""
        self._file.add("taskRestarted", task=task, number=number, exitCode=code)

    def job_restarted(self, number: int, failed_task: str, code: int) -> None:
        """The job, which `failed_task` failed with `code`, is retried; `number` counts its retries."""
        self._file.add("jobRestarted", number=number, failedTask=failed_task, exitCode=code)

    def not_retried(self, task: str, code: int) -> None:
        """A task failed with `code`; neither it nor the job is retried, because that failure is permanent."""
        self._file.add("notRetried", task=task, exitCode=code)

    def decided(self, code: int, failed_task: str | None) -> None:
        """The tasks that have ended decide the job. `failed_task`: by whose end it has failed."""
        self._file.add("decided", exitCode=code, failedTask=failed_task)

    def ended(self, run: Run, signal: int | None) -> None:
        """All tasks have ended. `signal`: that by which the run was told to stop."""
        self._file.add("ended", outcome=run.outcome, failedTask=run.failed_task, signal=signal)
