"""The interface by which commands read a run of any engine, and act on it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.task.record import record

LogName = Literal["user", "runtime"]
"""The output of a task's command, or the log of the runtime and its callbacks."""

Activity = Mapping[str, Progress | None]
"""The progress of each task by name; None if it is not running, or unknown."""


@record(frozen=True)
class TaskVariables:
    """The known content of a task's ``variables.json``.

    `missing` says what is not known, and why; it is empty if nothing is missing.
    """

    known: Mapping[str, Any]
    missing: str = ""


class LogReader(Protocol):
    """A reader of one log of a task, across its rotated files; `name` is how messages refer to it.

    Reading may raise OSError: with ``EAGAIN``, reading can continue once the log is readable again; with
    ``ENODATA``, some of the log is lost for good, and the rest has been read.
    """

    name: str

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty if there is nothing new."""

    def read_timed(self, most: int) -> Sequence[Piece]:
        """Return the next bytes as `read` does, split into pieces by the time at which they were written."""

    def size(self) -> int:
        """Return the number of bytes that are kept of the log."""

    def tail(self, most: int) -> bytes:
        """Return the last bytes, at most `most`; empty if there is no log.

        It does not move the position of `read`.
        """

    def is_at_end(self) -> bool:
        """Return whether everything has been read that will come of a task that has ended."""

    def close(self) -> None:
        """Close the log; it must not be read afterwards."""


class RunReader(Protocol):
    """A run as its engine knows it now.

    `named` is how commands refer to it: the path of its directory, or its name on a cluster. `options` are
    the further words of a command line that names it, such as ``--on`` and the cluster's profile; empty for a
    run on this machine. Methods that have to ask a cluster raise `ClusterError` if it cannot be asked.
    """

    named: str
    options: tuple[str, ...]

    def run(self) -> Run | Unreadable:
        """Return the run with all its tasks."""

    def progress(self, task: RunTask) -> Progress | None:
        """Return what a task is doing, or did last; None if unknown."""

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record of a task; empty if there is none, or it is unreadable."""

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """Open a log of a task at the oldest byte that is kept, whether it exists yet or not.

        `attempt` selects the log of an earlier attempt, counted from 0; None is the last attempt.
        """

    def variables(self, task: RunTask) -> TaskVariables:
        """Return the content of a task's ``variables.json``.

        Raises OSError, or ValueError if it is invalid.
        """

    def cancel(self) -> str:
        """Cancel the run. Raises OSError if that fails.

        Returns what people can do besides waiting for its end, such as ``run this again to kill all tasks
        now``, or an empty string.
        """

    def remove(self) -> None:
        """Remove a run that is over, with all that is kept of it anywhere.

        Raises `CannotRemove` if that fails.
        """

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Run a program in a task that runs or is held, and return its exit status. Raises `CannotEnter`.

        It has the task's files, variables and working directory, and our standard streams; without `argv` it
        is a shell. It ends with the task at the latest.
        """


def activity(reader: RunReader, run: Run) -> Activity:
    """Return the progress of every task of a run, by name."""
    return {
        task.name: reader.progress(task) if task.state == "running" and not run.lost else None
        for task in run.tasks
    }
