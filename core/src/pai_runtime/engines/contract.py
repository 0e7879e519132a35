"""What the host expects of the objects of an engine that a plugin brings."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from pai_document.problems import InvalidInput
from pai_runtime.engines.interface import Engine, NewRun, Option, Rendered
from pai_runtime.host.blame import PluginError
from pai_runtime.host.guard import Contract, Guard, anything, each_of, of_type
from pai_runtime.runs.errors import CannotCopy, CannotEnter, CannotRemove, CannotRun, ClusterError
from pai_runtime.runs.names import NoSuchRun
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import LogReader, RunReader, TaskVariables
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.runs.task_files import TaskFile

_LOG: Final = Contract(
    LogReader,
    {
        "name": of_type(str),
        "read": of_type(bytes),
        "read_timed": of_type(Sequence),
        "size": of_type(int),
        "tail": of_type(bytes),
        "is_at_end": of_type(bool),
        "close": anything,
    },
    (OSError,),
)


def _texts(guard: Guard, value: Any) -> list[str]:
    texts = list(of_type(Iterable)(guard, value))
    return [of_type(str)(guard, each) for each in texts]


def _plan(guard: Guard, value: Any) -> Any:
    from pai_task.plan import Plan  # noqa: PLC0415 - not for commands that look at runs

    return of_type(Plan, None)(guard, value)


_OF_A_RUN: Final = (ClusterError, CannotCopy, CannotEnter, CannotRemove, NoSuchRun, OSError)

_READER: Final = Contract(
    RunReader,
    {
        "named": of_type(str),
        "on": of_type(str),
        "folder": of_type(Path, None),
        "goes_on": of_type(bool),
        "run": of_type(Run, Unreadable),
        "progress": of_type(Progress, None),
        "exit_record": of_type(Mapping),
        "log": lambda guard, value: guard.guarded(value, _LOG),
        "variables": of_type(TaskVariables),
        "cancel": of_type(str),
        "remove": of_type(int, None),
        "plan": _plan,
        "events": of_type(Sequence),
        "services": of_type(Mapping),
        "supervisor": of_type(int, None),
        "provenance": of_type(Mapping),
        "connected": of_type(AbstractContextManager),
        "exec": of_type(int),
        "files": each_of(of_type(TaskFile), "RunReader.files", _OF_A_RUN),
        "ended": of_type(float, int, None),
        "follow": anything,
        "interrupt": anything,
        "wait": anything,
        "is_away": of_type(bool),
        "is_settled": of_type(bool),
        "news": _texts,
        "close": anything,
    },
    _OF_A_RUN,
)


def _runs(guard: Guard, value: Any) -> list[tuple[Any, Any]]:
    found = []
    for each in of_type(list, tuple)(guard, value):
        if not isinstance(each, tuple) or len(each) != len(("reader", "run")):
            raise TypeError("a run is not a pair of its reader and its state")
        found.append((guard.guarded(each[0], _READER), of_type(Run, Unreadable)(guard, each[1])))
    return found


def _options(guard: Guard, value: Any) -> list[Option]:
    return [of_type(Option)(guard, each) for each in of_type(Sequence)(guard, value)]


def _placement(guard: Guard, value: Any) -> Any:
    from pai_runtime.plan.environment import Placement  # noqa: PLC0415 - not for commands that look at runs

    return of_type(Placement)(guard, value)


_NEW_RUN: Final = Contract(
    NewRun,
    {
        "place": _placement,
        "check": anything,
        "render": of_type(Rendered),
        "submit": lambda guard, value: guard.guarded(value, _READER),
        "discard": anything,
    },
    (InvalidInput, CannotRun, ClusterError),
)


def _part(guard: Guard, value: Any) -> Any:
    return None if value is None else guard.guarded(value, ENGINE)


ENGINE: Final = Contract(
    Engine,
    {
        "options": _options,
        "cannot": of_type(Mapping),
        "has_own_plugins": of_type(bool),
        "runs_go_on": of_type(bool),
        "prints_output": of_type(bool),
        "keeps_provenance": of_type(bool),
        "new_run": lambda guard, value: guard.guarded(value, _NEW_RUN),
        "open_run": lambda guard, value: guard.guarded(value, _READER),
        "user": of_type(str),
        "runs": _runs,
        "find_run": lambda guard, value: guard.guarded(value, _READER),
        "part": _part,
    },
    (InvalidInput, ClusterError, NoSuchRun),
)


def raised(error: PluginError) -> ClusterError:
    """Return the exception that commands expect of a cluster that cannot be asked."""
    return ClusterError(str(error))
