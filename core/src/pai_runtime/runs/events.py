"""The events of a run as a whole, in ``events.jsonl`` in its directory; each task has its own file.

``events.schema.json`` says what is in them. Of what a task wrote or was told there is nothing in them.
"""

from pai_runtime.runs.state import Run
from pai_task.events import EventFile
from pai_task.folder import Folder


class RunEvents:
    """A writer of the events of a run; write errors are ignored."""

    def __init__(self, folder: Folder) -> None:
        self._file = EventFile(folder)

    def task_restarted(self, task: str, number: int, code: int) -> None:
        """Record the `number`-th retry of a task, which failed with `code`, in this attempt of the job."""
        self._file.add("taskRestarted", task=task, number=number, exitCode=code)

    def job_restarted(self, number: int, failed_task: str, code: int) -> None:
        """Record the `number`-th retry of the job, which `failed_task` has failed with `code`."""
        self._file.add("jobRestarted", number=number, failedTask=failed_task, exitCode=code)

    def not_retried(self, task: str, code: int) -> None:
        """Record that a task's failure with `code` is permanent, so neither it nor the job is retried."""
        self._file.add("notRetried", task=task, exitCode=code)

    def decided(self, code: int, failed_task: str | None) -> None:
        """Record the job's exit code once it is decided, and the task that failed it, if one did."""
        self._file.add("decided", exitCode=code, failedTask=failed_task)

    def ended(self, run: Run, signal: int | None) -> None:
        """Record that all tasks have ended; `signal` is the one that stopped the run, if one did."""
        self._file.add("ended", outcome=run.outcome, failedTask=run.failed_task, signal=signal)
