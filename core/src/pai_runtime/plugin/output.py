"""What a plugin's command is given beside its arguments: where it prints, and the runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from dataclasses import dataclass as record
    from typing import Any, Protocol
else:
    from pai_runtime.task.record import record

    Protocol = object


class TaskLog(Protocol):
    """A log of a task, over its rotated files. `name` is what messages call it, such as its path."""

    name: str

    def read(self, most: int) -> bytes:
        """The next bytes, at most so many, from the oldest that is kept; none at the end. Raises OSError."""

    def close(self) -> None:
        """Nothing more will be read."""


@record(frozen=True)
class FailedTask:
    """A task of a run that has failed, by its `name`, such as ``worker/0``.

    `exit_record` is the content of its exit record, which the task may have changed; it is empty if there is
    none. `user_log` is the command's output, `runtime_log` is ``runtime.log``.
    """

    name: str
    exit_record: Mapping[str, Any]
    user_log: TaskLog
    runtime_log: TaskLog


class Output(Protocol):
    """The output of a plugin's command. Control characters in untrusted text are escaped."""

    @property
    def columns(self) -> int | None:
        """How wide the terminal is that shows the output; None if none does."""

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print each line to standard output, with control characters escaped."""

    def write_json(self, document: Any) -> None:
        """Print a document to standard output."""

    def report(self, *lines: str) -> None:
        """Messages on standard error; each names what it is about."""

    def log_line(self, line: bytes, columns: int) -> str:
        """The beginning of a line of a log as a terminal would show it, without escape sequences."""

    def failed_tasks(self, run: str, task: str | None = None, on: str | None = None) -> Sequence[FailedTask]:
        """The tasks of a run that have failed so far, first the one that failed the job; or one of these.

        `run` is its name in ``.pai-runs``, the path of its directory, or ``latest``; `task` such as
        ``worker/0``. With `on`, the name of an engine profile, the run is on that cluster. Raises `UserError`
        if there is no such run or task.
        """
