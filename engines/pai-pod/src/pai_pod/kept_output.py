"""The output of a run's tasks on a storage, where the sidecars of their pods have copied it.

Whatever can write to the storage can replace anything there, so nothing in it is trusted: no link is
followed, and only regular files are read, up to a bound.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pai_runtime.runs.log_follower import LogFollower
from pai_runtime.runs.reader import LogName
from pai_task.exit_record import read_exit_record
from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from pai_task.layout import VARIABLES

LOGS: Final[Mapping[LogName, str]] = {"user": "user.log", "runtime": "runtime.log"}
"""The logs in the directory of an attempt; beside them are its events, its record and its variables."""
OUTPUT_VARIABLE: Final = "PAI_OUTPUT_OF_TASK"
"""The variable of the sidecar with the directory of its task on the storage, from `task_output_path`."""
_MOST_VARIABLES: Final = 1 << 20
_ATTEMPT: Final = re.compile("[0-9]{1,4}")


def task_output_path(run: str, uid: str, role: str, index: int | str) -> str:
    """Return the directory of a task on the storage, in which each attempt has one, named by its number."""
    return f"{run}/{uid}/{role}/{index}"


def last_attempt(root: Path, path: str) -> int | None:
    """Return the number of a task's last attempt in its directory below `root`; None if there is none."""
    try:
        with Folder.at(root) as storage, storage.folder(path) as folder:
            return max((int(name) for name in folder.names() if _ATTEMPT.fullmatch(name)), default=None)
    except OSError:
        return None


class StoredAttempt:
    """An attempt of a task, in the directory `path` below `root`, where the storage is mounted."""

    def __init__(self, root: Path, path: str) -> None:
        self._root = root
        self._path = path

    def log(self, log: LogName) -> LogFollower | None:
        """Return a reader of a log; None if nothing of it is there."""
        name = f"{self._path}/{LOGS[log]}"
        try:
            with Folder.at(self._root) as storage:
                return LogFollower(self._root, name) if storage.exists(name) else None
        except OSError:
            return None

    def record(self) -> Mapping[str, Any]:
        """Return the exit record; empty if it is missing or invalid."""
        try:
            with Folder.at(self._root) as storage, storage.folder(self._path) as folder:
                return read_exit_record(folder)
        except OSError:
            return {}

    def variables(self) -> Mapping[str, Any]:
        """Return the task's own variables; empty if they are missing or invalid."""
        try:
            with Folder.at(self._root) as storage:
                found = loads_untrusted(storage.read(f"{self._path}/{VARIABLES}", _MOST_VARIABLES))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
