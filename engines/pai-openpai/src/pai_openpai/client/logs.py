"""The logs of a run's tasks, read from the nodes of the cluster."""

import errno
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from pai_network.fields import mappings
from pai_openpai.client.api import Api, job_path
from pai_openpai.client.fields import number
from pai_openpai.client.job_view import Attempt, JobView
from pai_openpai.client.log_files import GrowingFile, LogFiles, NoLog, NotNow
from pai_openpai.client.log_threads import LogThreads
from pai_runtime.engine import RunTask
from pai_runtime.engine.jobs import framework_name
from pai_runtime.engine.messages import RequestError
from pai_runtime.engine.records import LogName, LogsAtOnce, Piece

FIRST_PAUSE: Final = 1.0
"""Seconds between two looks at a log; if it does not grow, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE: Final = 5.0

_FILES: Final = {"user": ("all",), "runtime": ("init.log", "runtime.log")}
_RECORDS: Final = ("exit.yaml", "pai-termination-log")
_MOST_TAILS: Final = 20
_MOST_KEPT: Final = 8192
_MOST_OF_RECORD: Final = 1 << 16
_HUGE: Final = 1 << 62
"""A size larger than that of any log; the real one is unknown."""
_GONE: Final = "some or all of it is gone: OpenPAI removes logs after 30 days, and with their node"


class Logs:
    """The logs of the tasks of one job. If `is_live`, threads read them, and reading does not block."""

    def __init__(self, api: Api, user: str, name: str, view: Callable[[], JobView]) -> None:
        self.view = view
        self.at_once = LogsAtOnce[TaskLog]()
        self._api = api
        self._user = user
        self._name = name
        self._threads: LogThreads | None = None
        self._tails: dict[tuple[str, LogName], bytes] = {}

    @property
    def is_live(self) -> bool:
        """Whether logs are read in threads."""
        return self._threads is not None

    def follow(self) -> None:
        """Read logs in threads from now on, until `close`."""
        self._threads = LogThreads()

    def close(self) -> None:
        """Read nothing more in threads."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()

    def submit(self, read: Callable[[], bytes]) -> "Future[bytes]":
        """Begin to read in a thread."""
        assert self._threads is not None  # noqa: S101 - for the type checker
        return self._threads.submit(read)

    def is_more_to_come(self) -> bool:
        """Return whether a log that is read has not ended."""
        return any(not log.is_at_end() for log in self.at_once.logs)

    def log(self, task: RunTask, log: LogName, attempt: int | None) -> "TaskLog":
        """Return a log of a task, from its oldest byte."""
        return TaskLog(self, task, log, attempt)

    def files(self, task: RunTask, attempt: Attempt) -> LogFiles:
        """Return the files of an attempt of a task."""
        role, live = framework_name(task.role), self.is_live
        return LogFiles(self._api, self._user, self._name, role, task.index, attempt, followed=live)

    def attempt(self, task: RunTask, wanted: int | None) -> Attempt | None:
        """Return the last attempt of a task, or one by its number; None before there is one.

        Raises OSError.
        """
        last = self.view().attempt(task.name)
        if wanted is None or last is None:
            return last
        if wanted >= last.job:
            return Attempt(last.job, wanted - last.job)
        path = job_path(self._user, self._name, "attempts", wanted)
        try:
            found = self._api.get(path, what=f"read attempt {wanted} of {self._name}")
        except RequestError as error:
            raise OSError(errno.ENODATA, str(error), task.name) from None
        rows = mappings(found, "taskRoles", framework_name(task.role), "taskStatuses")
        own = [number(row, "attemptId") or 0 for row in rows if number(row, "taskIndex") == task.index]
        return Attempt(wanted, own[0] if own else 0)

    def keep_tail(self, task: str, log: LogName, data: bytes) -> None:
        """Keep the end of what was read."""
        key = task, log
        self._tails[key] = (self._tails.get(key, b"") + data)[-_MOST_KEPT:]

    def tail(self, task: RunTask, log: LogName, most: int) -> bytes:
        """Return the end of a log: of what was read of it, or else asked for, a limited number of times."""
        key = task.name, log
        if key not in self._tails:
            if self.is_live or len(self._tails) >= _MOST_TAILS:
                return b""
            self._tails[key] = self._end_of(task, _FILES[log][-1], _MOST_KEPT)
        return self._tails[key][-most:]

    def record(self, task: RunTask) -> bytes:
        """Return the exit record among the logs of a task; empty if there is none. Raises `NotNow`."""
        found = (self._end_of(task, name, _MOST_OF_RECORD) for name in _RECORDS)
        return next(filter(None, found), b"")

    def _end_of(self, task: RunTask, name: str, most: int) -> bytes:
        attempt = self.view().attempt(task.name)
        if attempt is None:
            return b""
        with suppress(OSError, NoLog):
            files = self.files(task, attempt)
            start = files.part(name, 0, 1)
            part = files.part(name, max(0, start.size - most), most) if start else None
            return part.data if part else b""
        return b""


class TaskLog:
    """One log of one task: of its last attempt and those that follow it, or of one earlier attempt."""

    def __init__(self, logs: Logs, task: RunTask, log: LogName, attempt: int | None) -> None:
        self.name = f"the {log} log of {task.name}"
        self._logs = logs
        self._task = task
        self._log: LogName = log
        self._wanted = attempt
        self._attempt: Attempt | None = None
        self._left: list[GrowingFile] = []
        self._buffer = b""
        self._pending: Future[bytes] | None = None
        self._next = 0.0
        self._pause = FIRST_PAUSE
        self._was_over = False
        self._has_ended = False
        self._is_lost = False

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty if there is nothing new."""
        if not self._buffer and not self._has_ended:
            self._buffer = self._fetched()
        data, self._buffer = self._buffer[:most], self._buffer[most:]
        if not data and self._has_ended and self._is_lost:
            self._is_lost = False
            raise OSError(errno.ENODATA, _GONE, self.name)
        return data

    def read_timed(self, most: int) -> Sequence[Piece]:
        """Return the next bytes as one piece: nobody knows when they were written."""
        data = self.read(most)
        return [(None, data)] if data else []

    def size(self) -> int:
        """Return a size larger than any log's, since the real one is unknown."""
        return _HUGE

    def tail(self, most: int) -> bytes:
        """Return the last bytes of the log, as far as they may be asked for."""
        return self._logs.tail(self._task, self._log, most)

    def is_at_end(self) -> bool:
        """Return whether everything was read of attempts that have ended."""
        is_read = self._has_ended and not self._buffer and not self._is_lost
        return is_read or self.name in self._logs.at_once.left_out

    def close(self) -> None:
        """Close the log."""
        self._logs.at_once.logs.discard(self)
        self._has_ended = True

    def _fetched(self) -> bytes:
        if self._pending is None:
            if not self._is_due() or not self._logs.at_once.may_read(self, is_told=self._logs.is_live):
                return b""
            if self._logs.is_live:
                self._pending = self._logs.submit(self._read_next)
        try:
            if self._pending is None:
                data = self._read_next()
            elif not self._pending.done():
                return b""
            else:
                pending, self._pending = self._pending, None
                data = pending.result()
        except (NotNow, NoLog):
            data = b""
        except OSError:
            self._wait_longer()
            raise
        if data:
            self._next, self._pause = 0.0, FIRST_PAUSE
            self._logs.keep_tail(self._task.name, self._log, data)
        else:
            self._wait_longer()
        return data

    def _is_due(self) -> bool:
        """Return whether to look again: also at once when the attempt has just ended."""
        has_just_ended = not self._was_over and self._is_over()
        self._was_over |= has_just_ended
        return has_just_ended or time.monotonic() >= self._next

    def _wait_longer(self) -> None:
        self._next = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _read_next(self) -> bytes:
        """Return what is new; note if nothing more will come."""
        while True:
            is_over = self._is_over()  # looked at first: what has ended by now writes nothing more
            if (self._attempt is None and not self._open()) or not (is_over or self._may_have_begun()):
                self._has_ended = is_over
                return b""
            try:
                data = self._left[0].read()
            except NoLog:
                if not is_over:
                    return b""
                data, self._left = b"", self._left[-1:]
                self._is_lost |= self._was_launched()
            if data:
                return data
            if len(self._left) > 1:
                later = b"" if is_over else self._left[1].read()
                if not is_over and not later:
                    return b""
                self._leave_file()
                if later:
                    return later
            elif not is_over or not self._go_on():
                self._has_ended = is_over
                return b""

    def _open(self) -> bool:
        self._attempt = self._logs.attempt(self._task, self._wanted)
        if self._attempt is None:
            return False
        files = self._logs.files(self._task, self._attempt)
        self._left = [GrowingFile(files, name) for name in _FILES[self._log]]
        return True

    def _leave_file(self) -> None:
        self._is_lost |= self._left.pop(0).is_lost

    def _go_on(self) -> bool:
        """Go on with a later attempt, if there is one."""
        if self._left:
            self._leave_file()
        if self._wanted is not None or self._logs.view().attempt(self._task.name) == self._attempt:
            return False
        return self._open()

    def _is_over(self) -> bool:
        """Return whether the attempt that is read has ended."""
        view = self._logs.view()
        task = view.tasks.get(self._task.name)
        is_later = self._attempt is not None and view.attempt(self._task.name) != self._attempt
        return is_later or view.run.over or task is None or task.over

    def _may_have_begun(self) -> bool:
        """Return whether there may be something to read; of init, nobody else tells when it begins."""
        return self._log == "runtime" or self._was_launched()

    def _was_launched(self) -> bool:
        row = self._logs.view().rows.get(self._task.name, {})
        return number(row, "currentAttemptLaunchedTime") is not None
