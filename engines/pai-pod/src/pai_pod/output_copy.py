"""The copying of a task's output to a storage by the sidecar of its pod, while the task runs and at its end.

A thread does it, since a storage can hang: the log is printed meanwhile, and the end of the pod waits for at
most `TO_THE_END` seconds. The task can change what is read here, and other tasks the place where it goes, so
both are opened as such. What goes wrong is said in the log of the sidecar.
"""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from pai_document.printable import printable
from pai_pod.init_log import NAME as INIT_LOG
from pai_pod.kept_output import LOGS, OUTPUT_VARIABLE
from pai_pod.told_variables import PREFIX, told_line
from pai_runtime.runs.log_follower import LogFollower
from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from pai_task.launch import Rotation
from pai_task.layout import (
    EVENTS,
    RECORD,
    RECORD_BYTES,
    RUNTIME_LOG,
    USER_LOG,
    VARIABLES,
)
from pai_task.layout import (
    LOGS as TASK_LOGS,
)
from pai_task.log_file import LogFile
from pai_task.paths import OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pai_pod.directories import Directories

TO_THE_END = 10.0
"""Timeout in seconds for copying what is left when the task has ended."""

_POLL = 1.0
_CHUNK = 256 * 1024
_MOST_OF_INIT = 4 * 1024 * 1024
_ROTATION = Rotation(size=64 * 1024 * 1024)
_MOST_VARIABLES = 4 * 1024 * 1024
_OF_ATTEMPT = ("PAI_JOB_ATTEMPT", "PAI_TASK_ATTEMPT", "PAI_TASK_EVICTIONS")
"""Variables whose sum is the number of the task's attempt; one that is empty counts as 0."""


def output_copy(directories: Directories, environment: Mapping[str, str]) -> OutputCopy | None:
    """Begin to copy the output of the task to a storage, which is mounted; None if it is not to be kept."""
    path = environment.get(OUTPUT_VARIABLE)
    if not path:
        return None
    numbers = [environment.get(name, "") for name in _OF_ATTEMPT]
    attempt = sum(int(number) for number in numbers if number.isdecimal())
    return OutputCopy(directories, environment.get("PAI_OUTPUT_DIR") or OUTPUT, f"{path}/{attempt}")


class OutputCopy:
    """A thread that copies the output of a task to the directory `path` of a storage."""

    def __init__(self, directories: Directories, storage: str, path: str) -> None:
        self._directories = directories
        self._storage = storage
        self._path = path
        self._is_over = threading.Event()
        self._until = math.inf
        self._thread = threading.Thread(target=self._run, daemon=True, name="output copy")
        self._thread.start()

    def stop(self) -> None:
        """Let the rest be copied, since the task has ended."""
        self._until = time.monotonic() + TO_THE_END
        self._is_over.set()

    def wait(self) -> None:
        """Wait after `stop` until the rest is copied, or its time is over."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        if self._thread.is_alive():
            _say(
                f"some of the output is not kept: the storage at {self._storage} does not answer, or is slow"
            )

    def _run(self) -> None:
        try:
            with Folder.at(self._storage) as storage, storage.folder(self._path, make=True) as to:
                for name in to.names():  # of this sidecar, before it was started again
                    to.remove(name)
                self._copy(to)
        except OSError as error:
            _say(f"some of the output is not kept: {error.filename}: {error.strerror}")

    def _copy(self, to: Folder) -> None:
        logs = self._directories.logs
        with ExitStack() as stack:
            opened = stack.enter_context
            names = (*LOGS.values(), EVENTS)
            user, runtime, events = (opened(closing(LogFile(to, name, _ROTATION))) for name in names)
            with closing(self._followed(logs / INIT_LOG)) as init:
                _pass_on(init, runtime, _MOST_OF_INIT)
            copies = [
                (opened(closing(self._followed(logs / Path(USER_LOG).relative_to(TASK_LOGS)))), user),
                (opened(closing(self._followed(logs / Path(RUNTIME_LOG).relative_to(TASK_LOGS)))), runtime),
                (opened(closing(self._followed(self._directories.runtime / EVENTS))), events),
            ]
            self._follow(copies)
        self._copy_records(to)

    def _follow(self, copies: Sequence[tuple[LogFollower, LogFile]]) -> None:
        """Copy what comes to the logs until the task has ended, or the time after it is over."""
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(_POLL)  # before the look, so that nothing is missed
            while max([_pass_on(*each) for each in copies]) and time.monotonic() < self._until:
                pass

    def _followed(self, path: Path) -> LogFollower:
        """Return a reader of a log, from the volume on, as the task can replace each directory by a link."""
        volume = self._directories.volume
        root = volume if path.is_relative_to(volume) else path.parent
        return LogFollower(root, str(path.relative_to(root)))

    def _copy_records(self, to: Folder) -> None:
        if record := self._read(RECORD, RECORD_BYTES):
            to.write(RECORD, record.decode("utf-8", "replace"), sync=False)
        try:
            line = told_line(loads_untrusted(self._read(VARIABLES, _MOST_VARIABLES)))
        except ValueError:
            return  # there are none, or the task has made something else of them
        to.write(VARIABLES, line.removeprefix(PREFIX).decode(), sync=False)

    def _read(self, name: str, most: int) -> bytes:
        """Return a file of the task's directory; empty if it is missing, or not what it should be."""
        try:
            with Folder.at(self._directories.runtime, follow=False) as folder:
                return folder.read(name, most)
        except OSError:
            return b""


def _pass_on(log: LogFollower, to: LogFile, most: int = _CHUNK) -> bool:
    """Copy some of what is new in a log; return whether there was anything."""
    try:
        data = log.read(most)
    except OSError:
        return False  # the task has made something else of it
    to.write(data)
    return bool(data)


def _say(text: str) -> None:
    os.write(2, f"pai-runtime: {printable(text)}\n".encode())
