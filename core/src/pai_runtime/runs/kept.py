"""The local copy of what was read of a followed run, since the cluster removes pods with their logs.

A directory, by default in the user's state directory, for nobody else: ``kept.json`` with the run as it was
last, and for each task its exit record, its variables, and the logs of its attempts.
"""

import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pai_document.configuration_files import user_directory
from pai_runtime.runs.log_follower import LogFollower
from pai_runtime.runs.reader import LogName
from pai_runtime.runs.state import Run, RunTask
from pai_task.folder import Folder
from pai_task.launch import Rotation
from pai_task.log_file import LogFile
from pai_task.record import record

MOST_AGE: Final = 30 * 86400.0
"""Seconds after which a kept run is removed, when another one is kept."""

_RUN: Final = "kept.json"
_RECORD: Final = "record.json"
_VARIABLES: Final = "variables.json"
_OF_A_LOG: Final = Rotation(size=64 * 1024 * 1024)
_MOST_BYTES: Final = 64 * 1024 * 1024
_NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,100}")


def kept_at(profile: str, run: str) -> Path | None:
    """Return the path at which a run is kept, which may be a link; None if it cannot be kept."""
    state = user_directory("XDG_STATE_HOME", ".local/state")
    if state is None or not (_NAME.fullmatch(profile) and _NAME.fullmatch(run)):
        return None
    return state / "clusters" / profile / run


@record(frozen=True)
class Seen:
    """The last seen state of a run, and the id that no other run of its name has."""

    run: Run
    uid: str


class Kept:
    """The directory of a kept run, existing or not; only the first write error is reported."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[tuple[str, int, LogName], LogFile] = {}

    def begin(self, elsewhere: Path | None) -> None:
        """Create the directory anew, or use `elsewhere`, an empty one. Raises OSError."""
        self.remove()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in self.path.parent.iterdir():
            if other.lstat().st_mtime < time.time() - MOST_AGE:
                shutil.rmtree(other, ignore_errors=True)  # not where a link leads: somebody has chosen that
        if elsewhere is None:
            self.path.mkdir(mode=0o700)
        else:
            elsewhere.chmod(0o700)
            self.path.symlink_to(elsewhere.absolute())

    def append(self, task: str, attempt: int, log: LogName, data: bytes) -> None:
        """Append output that was read from a log."""
        key = task, attempt, log
        if key not in self._files:
            above = self.path / task
            above.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._files[key] = LogFile(Folder.at(above), _log(log, attempt), _OF_A_LOG)
        self._files[key].write(data)

    def keep(self, seen: Seen) -> None:
        """Write the state of the run."""
        self._write(_RUN, {"uid": seen.uid, "run": seen.run.to_json()})

    def keep_record(self, task: str, found: Mapping[str, Any]) -> None:
        """Write the exit record of a task."""
        self._write(f"{task}/{_RECORD}", found)

    def keep_variables(self, task: str, found: Mapping[str, Any]) -> None:
        """Write the variables of a task."""
        self._write(f"{task}/{_VARIABLES}", found)

    def seen(self) -> Seen | None:
        """Return the last state of the run; None if none is kept."""
        document = self._read(_RUN)
        try:
            return Seen(Run.from_json(document["run"]), str(document["uid"]))
        except (LookupError, ValueError):
            return None

    def record(self, task: str) -> Mapping[str, Any]:
        """Return the exit record of a task; empty if none is kept."""
        return self._read(f"{task}/{_RECORD}")

    def variables(self, task: str) -> Mapping[str, Any]:
        """Return the variables of a task; empty if none are kept."""
        return self._read(f"{task}/{_VARIABLES}")

    def log(self, task: RunTask, log: LogName, attempt: int | None) -> LogFollower | None:
        """Return a reader of a task's log; None if nothing of it is kept."""
        name = f"{task.name}/{_log(log, task.retries if attempt is None else attempt)}"
        return LogFollower(self.path, name) if (self.path / name).is_file() else None

    def remove(self) -> None:
        """Remove the directory with its content, but not one that was chosen for another run."""
        if self.path.is_symlink():
            if self.seen() is not None:
                shutil.rmtree(self.path.resolve(), ignore_errors=True)
            self.path.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with Folder.at(path.parent) as folder:
            folder.write(path.name, json.dumps(document), 0o600, sync=False)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            with Folder.at(self.path) as folder:
                document = json.loads(folder.read(name, _MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}


def _log(log: LogName, attempt: int) -> str:
    return f"{log}.{attempt}.log"
