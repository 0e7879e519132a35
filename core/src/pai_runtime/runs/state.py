"""How a run and its tasks are: ``run.json`` in the folder of a run, and ``state.json`` in that of each task.

Both may be read while they are written, or after what wrote them was killed. Whatever is in them, reading
does not fail: a run that cannot be understood is `Unreadable`, a task's progress that cannot is not known.
"""

import calendar
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import RECORD, STATE
from pai_runtime.task.vocabulary import Phase

TaskStatus = Literal["waiting", "running", "succeeded", "failed", "stopped"]
RunOutcome = Literal["succeeded", "failed", "cancelled"]
RunState = Literal["running", "lost", RunOutcome]
TaskPhase = Literal[Phase, "held", "lingering", "ended"]

RUN = "run.json"
"""In the folder of a run: what this module reads and writes."""

VERSION = 1

_FAR_FUTURE = 1e11
_MOST_STATE_BYTES = 1024 * 1024
_MOST_RUN_BYTES = 256 * 1024 * 1024
_MOST_RECORD_BYTES = 64 * 1024
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class RunTask:
    """A task as ``run.json`` has it. Times in seconds since 1970; None: not yet.

    `stopped`: ended because the job was decided or cancelled. `retries`: how often it was restarted.
    """

    role: str
    index: int
    state: TaskStatus
    exit_code: int | None
    retries: int
    started: float | None
    ended: float | None

    @property
    def name(self) -> str:
        """As people write it: ``worker/0``."""
        return f"{self.role}/{self.index}"

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state not in ("waiting", "running")


@dataclass(frozen=True)
class Run:
    """``run.json``: a run of a job, with every task of it, and the name of the engine that has it.

    `file` is the job file, `retries` how often all of it was restarted. `lost`, which is not in the file:
    nobody goes on with it.
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
    lost: bool = False

    @property
    def state(self) -> RunState:
        """How it is, in a word."""
        return "lost" if self.lost else self.outcome or "running"

    @property
    def over(self) -> bool:
        """Whether nothing more happens in it."""
        return self.lost or self.ended is not None

    def state_of(self, task: RunTask) -> TaskStatus | Literal["lost"]:
        """How a task of it is. Nothing is known of one that was left alone."""
        return "lost" if self.lost and not task.over else task.state

    def to_json(self) -> dict[str, Any]:
        """The content of ``run.json``."""
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
        """From the content of ``run.json``; raises `ValueError` where it is not as its schema says."""
        try:
            ended, failed_task = document.get("ended"), document.get("failedTask")
            return Run(
                _name(document["job"]),
                _name(document["engine"]),
                str(document["file"]),
                _seconds(document["started"]),
                _whole(document["retries"]),
                tuple(_task(each) for each in document["tasks"]),
                _seconds(ended) if ended is not None else None,
                _one_of(RunOutcome, document["outcome"]) if ended is not None else None,
                _name(failed_task) if failed_task is not None else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is not the record of a run: {error!r}") from None


@dataclass(frozen=True)
class Unreadable:
    """Why a folder does not say what run it is of."""

    reason: str


@dataclass(frozen=True)
class Progress:
    """``state.json``: what a task is doing, of which use, since when (seconds since 1970).

    A task that is held for debugging, or lingers for its services, does so until the time `held_until`, or
    until the file `release` exists. `addresses` are those of its services that are ready, by their names.
    """

    phase: TaskPhase
    use: str | None
    since: float
    held_until: float | None = None
    release: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


def read_run(folder: Path) -> Run | Unreadable:
    """The run in `folder`, as ``run.json`` there says."""
    document = _read(folder)
    if isinstance(document, Unreadable):
        return document
    try:
        return Run.from_json(document)
    except ValueError as error:
        return Unreadable(f"its run.json cannot be understood: {error}")


def read_engine(folder: Path) -> str | Unreadable:
    """The name of the engine that has the run in `folder`."""
    document = _read(folder)
    if isinstance(document, Unreadable):
        return document
    try:
        return _name(document["engine"])
    except (KeyError, TypeError, ValueError) as error:
        return Unreadable(f"its run.json does not say which engine has it: {error!r}")


def _read(folder: Path) -> Any:
    try:
        with Folder.at(folder) as opened:
            return json.loads(opened.read(RUN, _MOST_RUN_BYTES))
    except FileNotFoundError:
        return Unreadable("it has no run.json" if folder.is_dir() else "there is no such folder")
    except OSError as error:
        return Unreadable(f"its run.json cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return Unreadable(f"its run.json cannot be understood: {error}")


def read_phase(task: Folder) -> Phase | None:
    """The phase that the task in a folder is in, or was in when its supervisor was killed."""
    try:
        phase: Phase = _one_of(Phase, json.loads(task.read(STATE, _MOST_STATE_BYTES))["phase"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return phase


def read_progress(task: Folder) -> Progress | None:
    """What the task in a folder is doing, or did last; None: that is not known."""
    try:
        document = json.loads(task.read(STATE, _MOST_STATE_BYTES))
        use, held_until, release = (document.get(key) for key in ("use", "heldUntil", "release"))
        return Progress(
            _one_of(TaskPhase, document["phase"]),
            _text(use) if use is not None else None,
            _moment(document["since"]),
            _moment(held_until) if held_until is not None else None,
            _text(release) if release is not None else None,
            {_text(name): _text(address) for name, address in document.get("addresses", {}).items()},
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def read_exit_record(task: Folder) -> Mapping[str, Any]:
    """The exit record in the folder of a task, or of an attempt; empty if there is none that can be read."""
    try:
        text = task.read(RECORD, _MOST_RECORD_BYTES).decode()
        record = parse_document(text, str(task.path / RECORD)).data
    except (OSError, UnicodeDecodeError, InvalidInput):
        return {}
    return record if isinstance(record, Mapping) else {}


def _task(document: Mapping[str, Any]) -> RunTask:
    code = document["exitCode"]
    started, ended = document.get("started"), document.get("ended")
    return RunTask(
        _name(document["role"]),
        _whole(document["index"]),
        _one_of(TaskStatus, document["state"]),
        _whole(code) if code is not None else None,
        _whole(document["retries"]),
        _seconds(started) if started is not None else None,
        _seconds(ended) if ended is not None else None,
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


def _text(value: str) -> str:
    if not value.isprintable():
        raise ValueError(f"{value!r} is not what a person can read")
    return value


def _moment(value: Any) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value < _FAR_FUTURE:
        raise ValueError(f"{value!r} is no time")
    return float(value)


def _timestamp(seconds: float) -> str:
    return time.strftime(_TIME, time.gmtime(seconds))


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    return calendar.timegm(time.strptime(text, _TIME))
