"""The directory of a submitted run, on the shared file system: what is known without asking Slurm.

Below it, in a directory of its own name, the run supervisor keeps the run as it does on one machine.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pai_runtime.engine import Job, Run, RunTask, Unreadable
from pai_runtime.engine.classes import record
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.local import Folder
from pai_runtime.engine.submitting import SECRETS
from pai_slurm.images import Images
from pai_slurm.shapes import is_array

ENGINE: Final = "slurm"
NODES: Final = "nodes.json"
"""The file with the node of each task, its address and component, in the directory of the supervised run."""
CONTAINERS: Final = ".containers"
"""The directory with the OCI bundles of tasks, in the directory of the supervised run."""

_SUBMITTED: Final = "submitted.json"
_JOB_ID: Final = "job.json"
_END: Final = "end.json"
_ARRAY: Final = "array"
_SETTINGS: Final = "settings.json"
_STOP: Final = "stop"
_MOST_BYTES: Final = 64 * 1024
_OWN: Final = 0o600
_NAME: Final = re.compile(r"[\w-]+", re.ASCII)
_ID: Final = re.compile(r"[0-9]+")


def new_folder(runs: Path, job: str) -> Path:
    """Make the directory of a new run, for its user alone. Raises OSError."""
    runs.mkdir(0o700, parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            (runs / f"{job}-{number}").mkdir(0o700)
        except FileExistsError:
            number += 1
        else:
            return runs / f"{job}-{number}"


def element_folder(path: Path, number: int) -> Path:
    """Return the directory of the element of an array that has this number, and runs this task of the job."""
    return path / _ARRAY / str(number)


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a run."""
    return _NAME.fullmatch(text) is not None


def note_submission(folder: Folder, job: Job, user: str) -> None:
    """Write what is known of a run before it begins. Raises OSError."""
    document = {
        "job": job.name,
        "file": str(Path(job.file).absolute()),
        "user": user,
        "at": time.time(),
        "array": is_array(job),
        "roles": {role.name: role.instances for role in job.roles.values()},
    }
    folder.write(_SUBMITTED, json.dumps(document), _OWN, sync=False)


def note_job(folder: Folder, job_id: str, restarts: int = 0, *, sync: bool = True) -> None:
    """Write the id of the run's job, and how often Slurm has started it again. Raises OSError."""
    folder.write(_JOB_ID, json.dumps({"id": job_id, "restarts": restarts}), _OWN, sync=sync)


def read_job(folder: Folder) -> tuple[str, int]:
    """Return what `note_job` has written; an empty id if that is nothing. Raises OSError and ValueError."""
    found = _read(folder, _JOB_ID)
    job_id = str(found.get("id", ""))
    return job_id if _ID.fullmatch(job_id) else "", int(found.get("restarts", 0))


def note_stop(folder: Folder) -> bool:
    """Note that somebody stops the run; return whether somebody has before. Raises OSError."""
    is_again = is_stopped(folder)
    folder.write(_STOP, "", _OWN)
    return is_again


def is_stopped(folder: Folder) -> bool:
    """Return whether somebody stops the run. Raises OSError."""
    return folder.exists(_STOP)


@record(frozen=True)
class Settings:
    """What the run supervisor needs of the engine profile, and whether Slurm may start the job again."""

    images: Images | None
    storages: Mapping[str, str]
    requeues: bool


def note_settings(folder: Folder, settings: Settings) -> None:
    """Write the settings of a run. Raises OSError."""
    images = vars(settings.images) if settings.images else None
    folder.write(_SETTINGS, json.dumps({**vars(settings), "images": images}), _OWN, sync=False)


def read_settings(folder: Folder) -> Settings:
    """Read what `note_settings` has written; empty if it is missing. Raises OSError."""
    found = _read(folder, _SETTINGS)
    images = Images(**found["images"]) if found.get("images") else None
    return Settings(images, found.get("storages", {}), found.get("requeues") is True)


@record(frozen=True)
class End:
    """How Slurm has ended the job of a run: its state there, and when; empty and when that was seen, unknown.

    A time is in seconds since 1970.
    """

    state: str
    at: float


@record(frozen=True)
class Submitted:
    """A submitted run: its state while it waits, and the id of its job, empty until that is known.

    `requeues` says that Slurm may start it again, and `restarts` how often it has. With `is_array`, each task
    is a job of its own.
    """

    waiting: Run
    job_id: str
    requeues: bool
    restarts: int
    is_array: bool
    is_stopped: bool
    end: End | None


def read_submitted(path: Path) -> Submitted | Unreadable:
    """Read the directory of a run, which others of its user's programs may have changed."""
    try:
        with Folder.at(path) as folder:
            found, (job_id, restarts) = _read(folder, _SUBMITTED), read_job(folder)
            end = _read(folder, _END)
            return Submitted(
                waiting=_waiting(found),
                job_id=job_id,
                requeues=read_settings(folder).requeues,
                restarts=restarts,
                is_array=found.get("array") is True,
                is_stopped=is_stopped(folder),
                end=End(str(end["state"]), float(end["at"])) if end else None,
            )
    except FileNotFoundError:
        return Unreadable("there is no such run", is_missing=True)
    except OSError as error:
        return Unreadable(f"its directory cannot be read: {error.strerror}")
    except (AttributeError, KeyError, TypeError, ValueError):
        return Unreadable(f"its {_SUBMITTED} is invalid")


def note_end(path: Path, end: End) -> End:
    """Keep how Slurm has ended the job, which it soon forgets; return it."""
    try:
        with Folder.at(path) as folder:
            folder.write(_END, json.dumps({"state": end.state, "at": end.at}), _OWN)
            folder.unlink(SECRETS)  # which are there if it has not begun
    except OSError:  # it is asked for again; of one that is forgotten, nothing will be known
        return end if end.state else End("", 0.0)
    return end


def _read(folder: Folder, name: str) -> Mapping[str, Any]:
    if name != _SUBMITTED and not folder.exists(name):
        return {}
    found = loads_untrusted(folder.read(name, _MOST_BYTES))
    if not isinstance(found, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - as for all else that is wrong in it
    return found


def _waiting(found: Mapping[str, Any]) -> Run:
    tasks = tuple(
        RunTask(str(role), index, "waiting", None, 0, None, None)
        for role, count in found["roles"].items()
        for index in range(int(count))
    )
    return Run(
        job=str(found["job"]),
        engine=ENGINE,
        file=str(found["file"]),
        started=float(found["at"]),
        retries=0,
        tasks=tasks,
        queued=True,
        user=str(found["user"]),
    )
