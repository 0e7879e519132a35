"""The interface by which commands read a run of any engine, and act on it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pai_runtime.runs.errors import CannotCopy, CannotEnter
from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.provenance import Provenance
from pai_runtime.runs.restarts import restarts
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.runs.task_files import TaskFile
from pai_task.record import record

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_task.plan import Plan

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


@runtime_checkable
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


class RunReader(ABC):
    """A run as its engine knows it now, and what can be done with it.

    `named` is how commands refer to it, and `on` the engine profile by which; that is empty for a run on this
    machine. `folder` is the directory that the run is, if it is one. `goes_on` says that it goes on if nobody
    follows it. Methods that have to ask a cluster raise `ClusterError` if it cannot be asked.
    """

    named: str
    on: str = ""
    folder: Path | None = None
    goes_on: bool = True

    @abstractmethod
    def run(self) -> Run | Unreadable:
        """Return the run with all its tasks."""

    @abstractmethod
    def progress(self, task: RunTask) -> Progress | None:
        """Return what a task is doing, or did last; None if unknown."""

    @abstractmethod
    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record of a task; empty if there is none, or it is unreadable."""

    @abstractmethod
    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """Open a log of a task at the oldest byte that is kept, whether it exists yet or not.

        `attempt` selects the log of an earlier attempt, counted from 0; None is the last attempt.
        """

    @abstractmethod
    def variables(self, task: RunTask) -> TaskVariables:
        """Return the content of a task's ``variables.json``.

        Raises OSError, or ValueError if it is invalid.
        """

    @abstractmethod
    def cancel(self) -> str:
        """Cancel the run. Raises OSError if that fails.

        Returns what people can do besides waiting for its end, such as ``run this again to kill all tasks
        now``, or an empty string.
        """

    @abstractmethod
    def remove(self) -> int | None:
        """Remove a run that is over, with all that is kept of it anywhere; return its size, if known.

        The size is in bytes. Raises `CannotRemove` if that fails.
        """

    @abstractmethod
    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Run a program in a task that runs or is held, and return its exit status. Raises `CannotEnter`.

        It has the task's files, variables and working directory, and our standard streams; without `argv` it
        is a shell. It ends with the task at the latest.
        """

    def provenance(self, *, whole: bool = True) -> Provenance:  # noqa: ARG002 - for those that keep it
        """Return what the run came from, as it was given to the engine, with the plugins; empty if unknown.

        ``images`` may have the digests of the images, by task role. Without `whole`, as for lists, what takes
        further requests may be missing, such as the text of the job.
        """
        return {}

    def plan(self, task: RunTask) -> "Plan | None":  # noqa: ARG002 - as above
        """Return the plan of a task; None if it is not kept, or is invalid."""
        return None

    def events(self, task: RunTask, attempt: int | None = None) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002 - as above
        """Return the events of an attempt of a task, oldest first; empty if they are not kept.

        `attempt` is as for `log`.
        """
        return ()

    def services(self, task: RunTask) -> Mapping[str, str]:
        """Return the addresses of the services of a running task that are ready, by name."""
        progress = self.progress(task)
        return progress.addresses if progress is not None else {}

    def supervisor(self, task: RunTask) -> int | None:  # noqa: ARG002 - as above
        """Return the process id on this machine of the supervisor of a task; None if it runs nowhere here."""
        return None

    def connected(self, task: RunTask, address: str) -> AbstractContextManager[str]:  # noqa: ARG002 - as above
        """Return a context with a URL that leads from this machine to the address of a service of a task.

        That is the address itself if it does so without us. Raises `CannotEnter` for what is no http or
        https URL of the task, or if it cannot be reached.
        """
        raise CannotEnter("its engine reaches no services of tasks")

    def files(self, task: RunTask, path: str) -> Iterator[TaskFile]:  # noqa: ARG002 - for those that can
        """Yield the file or directory at a path of a task, and all below it, without following links.

        A relative path is one in its working directory. What comes before the next is read has to be read by
        then. Raises `CannotCopy`; an engine that never can declares that as ``cp`` in `Engine.cannot`.
        """
        raise CannotCopy("its engine reads no files of tasks")

    def ended(self, run: Run | Unreadable) -> float | None:
        """Return when a run, as `run` gave it, has ended; None if it has not, or that is unknown."""
        return run.ended if isinstance(run, Run) and run.over else None

    def follow(self, say: Callable[[str], None]) -> None:  # noqa: B027 - nothing is to be done for most
        """Begin to follow the run, until `close`.

        What the engine has to say of that meanwhile, it may `say` in `run` and `wait`.
        """

    def interrupt(self, number: int) -> None:  # noqa: ARG002 - for those who record it
        """Cancel a run that does not `goes_on`, because of a stop signal of this number; at once if again.

        Called by the handler of the signal.
        """
        self.cancel()

    def wait(self, seconds: float) -> None:
        """Wait until something of a followed run may have changed, at most `seconds`."""
        time.sleep(seconds)

    def is_away(self) -> bool:
        """Return whether a cluster does not answer at present, so that `run` may be out of date."""
        return False

    def is_settled(self) -> bool:
        """Return whether nothing more will come of a run that is over: logs, or how its tasks ended."""
        return True

    def news(self, before: Run, now: Run) -> Iterable[str]:
        """Return a line for each restart between two states of the run, for who follows it."""
        return restarts(before, now)

    def close(self) -> None:  # noqa: B027 - as above
        """End what was begun to follow the run."""


def activity(reader: RunReader, run: Run) -> Activity:
    """Return the progress of every task of a run, by name."""
    return {
        task.name: reader.progress(task) if task.state == "running" and not run.lost else None
        for task in run.tasks
    }
