"""The state of a run: ``run.json`` in its directory.

It may be read while it is written, or after what wrote it was killed. Whatever is in it, reading does not
fail: a run that cannot be understood is `Unreadable`.
"""

import calendar
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from pai_task.record import record

TaskStatus = Literal["waiting", "running", "succeeded", "failed", "stopped"]
RunOutcome = Literal["succeeded", "failed", "cancelled"]
RunState = Literal["running", "lost", RunOutcome]

RUN = "run.json"
"""The file in the directory of a run that this module reads and writes."""

VERSION = 1

LOCAL = "local"
"""The engine of all runs that have a directory."""

_MOST_RUN_BYTES = 64 * 1024 * 1024
_MOST_RUN_CONTAINERS = 500_000
"""Maximum number of objects and lists: more than the tasks for which so many bytes have room."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@record(frozen=True)
class RunTask:
    """A task in ``run.json``; times are in seconds since 1970, None before they are known.

    `stopped` as its state means that it ended because the job was decided or cancelled. `retries` counts its
    restarts, `failed_callbacks` the callbacks of the last attempt that failed after the command.
    `not_retried` means that it, or the job because of it, had retries left, but its failure is permanent.
    `node` is the cluster's machine that it is on, `note` what the cluster says of it, such as why it does not
    start; neither is in ``run.json``.
    """

    role: str
    index: int
    state: TaskStatus
    exit_code: int | None
    retries: int
    started: float | None
    ended: float | None
    failed_callbacks: int = 0
    not_retried: bool = False
    node: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """The name as people write it: ``worker/0``."""
        return f"{self.role}/{self.index}"

    @property
    def over(self) -> bool:
        """Whether the task has ended."""
        return self.state not in ("waiting", "running")


@record(frozen=True)
class Run:
    """A run of a job, as in ``run.json``: all its tasks, and the name of its engine.

    `file` is the job file, `retries` how often the whole job was restarted. Not in the file are: `stopping`,
    it was told to end and has not yet; `queued`, a cluster makes it wait, or has put it back; `lost`, its
    engine is gone; `user`, who submitted it to a cluster; `note`, what the cluster says of its failure;
    `listed_tasks`, how many tasks it has, in a list that does not say which.
    """

    job: str
    engine: str
    file: str
    started: float
    retries: int
    tasks: tuple[RunTask, ...]
    ended: float | None = None
    outcome: RunOutcome | None = None
    failed_task: str | None = None
    stopping: bool = False
    queued: bool = False
    lost: bool = False
    user: str = ""
    note: str = ""
    listed_tasks: int = 0

    @property
    def state(self) -> RunState:
        """The state in one word."""
        return "lost" if self.lost else self.outcome or "running"

    @property
    def word(self) -> str:
        """The state as it is shown to people, including that it is stopping or queued."""
        if self.over:
            return self.state
        return "stopping" if self.stopping else "queued" if self.queued else self.state

    @property
    def over(self) -> bool:
        """Whether the run has ended or is lost."""
        return self.lost or self.ended is not None

    def state_of(self, task: RunTask) -> TaskStatus | Literal["lost"]:
        """Return the state of a task; ``lost`` if it had not ended when the run was lost."""
        return "lost" if self.lost and not task.over else task.state

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``run.json``."""
        document: dict[str, Any] = {
            "runVersion": VERSION,
            "job": self.job,
            "engine": self.engine,
            "file": self.file,
            "started": _timestamp(self.started),
            "retries": self.retries,
            "tasks": [_task_to_json(task) for task in self.tasks],
        }
        if self.ended is not None:
            document |= {"ended": _timestamp(self.ended), "outcome": self.outcome}
        if self.failed_task is not None:
            document["failedTask"] = self.failed_task
        return document

    @staticmethod
    def from_json(document: Any) -> "Run":
        """Parse the content of ``run.json``. Raises `ValueError` if it does not match its schema."""
        try:
            ended, failed_task = document.get("ended"), document.get("failedTask")
            return Run(
                job=_name(document["job"]),
                engine=_name(document["engine"]),
                file=str(document["file"]),
                started=_seconds(document["started"]),
                retries=_whole(document["retries"]),
                tasks=tuple(map(_task, document["tasks"])),
                ended=_seconds(ended) if ended is not None else None,
                outcome=_one_of(RunOutcome, document["outcome"]) if ended is not None else None,
                failed_task=_name(failed_task) if failed_task is not None else None,
            )
        except KeyError as error:
            raise ValueError(f"it does not describe a run: field {error} is missing") from None
        except (AttributeError, TypeError):
            raise ValueError("it does not describe a run: a value has the wrong type") from None
        except ValueError as error:
            raise ValueError(f"it does not describe a run: {error}") from None


@record(frozen=True)
class Unreadable:
    """The reason why a run cannot be read, and whether that is because there is none."""

    reason: str
    is_missing: bool = False


def read_run(folder: Path) -> Run | Unreadable:
    """Read the run in `folder` from its ``run.json``."""
    document = _read(folder)
    if isinstance(document, Unreadable):
        return document
    try:
        run = Run.from_json(document)
    except ValueError as error:
        return Unreadable(f"its run.json is invalid: {error}")
    if run.engine != LOCAL:
        return Unreadable(f"its run.json is of the engine '{run.engine}'; in directories are local runs only")
    return run


def _read(folder: Path) -> Any:
    try:
        with Folder.at(folder) as opened:
            return loads_untrusted(opened.read(RUN, _MOST_RUN_BYTES), _MOST_RUN_CONTAINERS)
    except FileNotFoundError:
        return Unreadable("it has no run.json" if folder.is_dir() else "there is no such directory")
    except OSError as error:
        return Unreadable(f"its run.json cannot be read: {error.strerror}")
    except ValueError as error:
        return Unreadable(f"its run.json is invalid: {error}")


def _task(document: Mapping[str, Any]) -> RunTask:
    code = document["exitCode"]
    started, ended = document.get("started"), document.get("ended")
    return RunTask(
        role=_name(document["role"]),
        index=_whole(document["index"]),
        state=_one_of(TaskStatus, document["state"]),
        exit_code=_whole(code) if code is not None else None,
        retries=_whole(document["retries"]),
        started=_seconds(started) if started is not None else None,
        ended=_seconds(ended) if ended is not None else None,
        failed_callbacks=max(0, _whole(document.get("failedCallbacks", 0))),
        not_retried=document.get("notRetried") is True,
    )


def _task_to_json(task: RunTask) -> dict[str, Any]:
    return {
        "role": task.role,
        "index": task.index,
        "state": task.state,
        "exitCode": task.exit_code,
        "retries": task.retries,
        "started": task.started and _timestamp(task.started),
        "ended": task.ended and _timestamp(task.ended),
        "failedCallbacks": task.failed_callbacks,
        **({"notRetried": True} if task.not_retried else {}),
    }


def _one_of(kind: Any, value: Any) -> Any:
    if value not in get_args(kind):
        raise ValueError(f"{value!r} is not one of {', '.join(get_args(kind))}")
    return value


def _whole(value: int) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")  # noqa: TRY004 - as for all else that is wrong
    return value


def _name(value: str) -> str:
    if not re.fullmatch(r"[\w-]+(/[0-9]+)?", value, re.ASCII):
        raise ValueError(f"{value!r} is no name")
    return value


def _timestamp(seconds: float) -> str:
    return time.strftime(_TIME, time.gmtime(seconds))


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    return calendar.timegm(time.strptime(text, _TIME))
