"""The interface by which ``ps``, ``logs`` and the like read a run of any engine, and act on it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.task.record import record

LogName = Literal["user", "runtime"]
"""What the command of a task wrote, and what the runtime and its callbacks did."""

Activity = Mapping[str, Progress | None]
"""What each task is doing, by its name; None: it is not running, or that is not known."""


@record(frozen=True)
class TaskVariables:
    """What is known of a task's ``variables.json``; `missing`: what is not, and why; empty if it is all."""

    known: Mapping[str, Any]
    missing: str = ""


class LogReader(Protocol):
    """One log of one task, over its rotations. `name` is what messages call it, such as its path.

    What reads it may raise OSError: with ``EAGAIN`` it goes on once the log can be read again, and with
    ``ENODATA`` some of the log is gone for good, and what is left of it has been read.
    """

    name: str

    def read(self, most: int) -> bytes:
        """The next bytes, at most so many; none if nothing has come."""

    def read_timed(self, most: int) -> Sequence[Piece]:
        """As `read`, in pieces that were written at different times."""

    def size(self) -> int:
        """How many bytes are kept of it now."""

    def tail(self, most: int) -> bytes:
        """The last bytes, at most so many; none if there is no log. `read` goes on where it was."""

    def is_at_end(self) -> bool:
        """Whether all has been read that comes of a task which has ended."""

    def close(self) -> None:
        """Nothing more will be read."""


class RunReader(Protocol):
    """A run, as its engine knows it now.

    `named` is what commands call it: the path of its directory, or its name on a cluster. `options` are the
    further words of a command line that names it, such as ``--on`` and the name of the cluster's profile;
    none for a run of this machine. What has to ask a cluster raises `ClusterError` if it cannot.
    """

    named: str
    options: tuple[str, ...]

    def run(self) -> Run | Unreadable:
        """The run with all its tasks."""

    def progress(self, task: RunTask) -> Progress | None:
        """What a task is doing, or did last; None: that is not known."""

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Its exit record; empty if there is none that can be read."""

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """One of its logs, be there one yet or not, from the oldest byte that is kept.

        `attempt`: as an earlier attempt left it, counted from 0; None: that of the last one.
        """

    def variables(self, task: RunTask) -> TaskVariables:
        """The content of its ``variables.json``; raises OSError, or ValueError if it is not understood."""

    def cancel(self) -> str:
        """Have the run cancelled; raises OSError if that cannot be.

        What people can do beside waiting for its end, such as ``run this again to kill all tasks now``; empty
        if that is nothing.
        """

    def remove(self) -> None:
        """Remove a run that is over, with all that is kept of it anywhere; raises `CannotRemove`."""

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Run a program in a task that runs or is held; its exit status. Raises `CannotEnter`.

        It has the task's files, variables and working directory, and our standard streams; without `argv` it
        is a shell. It ends with the task at the latest.
        """


def activity(reader: RunReader, run: Run) -> Activity:
    """What every task of a run is doing."""
    return {
        task.name: reader.progress(task) if task.state == "running" and not run.lost else None
        for task in run.tasks
    }
