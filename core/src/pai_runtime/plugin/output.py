"""The argument of a plugin's command: its output, and access to runs and their failed tasks."""

from __future__ import annotations

from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol
else:
    Protocol = object


class TaskLog(Protocol):
    """A log of a task as one stream of bytes, oldest first, across its rotated files.

    `name` is how messages refer to it, such as its path.
    """

    name: str

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`, oldest first; empty at the end.

        Raises OSError if reading fails.
        """

    def close(self) -> None:
        """Close the log; it must not be read afterwards."""


@record(frozen=True)
class FailedTask:
    """A failed task of a run, identified by its `name`, such as ``worker/0``.

    `exit_record` is the content of its exit record, which the task may have changed; it is empty if there is
    none. `user_log` is the command's output, `runtime_log` is ``runtime.log``.
    """

    name: str
    exit_record: Mapping[str, Any]
    user_log: TaskLog
    runtime_log: TaskLog


@record(frozen=True)
class RunningTask:
    """A running task of a run.

    All processes of the task descend from its `supervisor`, which is a process id of this machine; None if it
    runs elsewhere. `ask` runs a program in the task as ``pai-runtime exec`` does, without input, and returns
    the JSON document that it prints. It raises `UserError` if the program fails, prints no JSON or more than
    8 MiB, or takes longer than 120 s, or if the task cannot be entered. The task may have forged both.
    """

    name: str
    supervisor: int | None
    ask: Callable[[Sequence[str]], Any]


class Output(Protocol):
    """The output of a plugin's command. Control characters in untrusted text are escaped."""

    @property
    def columns(self) -> int | None:
        """The width of the output's terminal in columns; None if the output is not a terminal."""

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print each line to standard output, with control characters escaped."""

    def write_json(self, document: Any) -> None:
        """Print a JSON document to standard output."""

    def report(self, *lines: str) -> None:
        """Print messages to standard error; each should name what it is about."""

    def log_line(self, line: bytes, columns: int) -> str:
        """Return the first `columns` columns of a log line as a terminal shows it, without escapes."""

    def failed_tasks(self, run: str, task: str | None = None, on: str | None = None) -> Sequence[FailedTask]:
        """List the failed tasks of a run, starting with the one that failed the job; or `task` only.

        `run` is its name in ``.pai-runs``, the path of its directory, or ``latest``; `task` such as
        ``worker/0``. With `on`, the name of an engine profile, the run is on that cluster. Raises `UserError`
        if there is no such run or task.
        """

    def running_tasks(
        self, run: str, task: str | None = None, on: str | None = None
    ) -> Sequence[RunningTask]:
        """List the running tasks of a run on this machine; or those of `task`, which may be a role.

        With `on`, the name of an engine profile, list those of a run on that cluster. Raises `UserError` if
        its engine does not support the command, if there is no such run or task, or if none of them runs
        there.
        """
