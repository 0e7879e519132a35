"""The interface of engines, and how the engine of a run is found.

An engine is an entry point in the group ``pai_runtime.engines`` of any distribution: its name is what
``run.json`` calls it, its value a module, or an object in one, that is an `Engine`. It is imported when a
run needs it. By the folder of a run people name it, on whatever machine; beside ``run.json`` the engine keeps
there, or elsewhere, what it likes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from pai_runtime.engines.view import View
from pai_runtime.host.metadata import distributions_with, entry_points, name_and_version
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable, read_engine

if TYPE_CHECKING:  # only new runs need them; ``ps`` and the like start faster without
    from pai_runtime.engines.code import Code
    from pai_runtime.job.model import Job
    from pai_runtime.plan.environment import Placement, TaskName
    from pai_runtime.task.plan import Plan

GROUP: Final = "pai_runtime.engines"

OWN: Final = {"local": "pai_runtime.engines.local"}
"""What pai-runtime itself declares; to look for it would take longer than all else that ``ps`` does."""


IsolationMode = Literal["auto", "none", "required"]


class Engine(Protocol):
    """What an entry point leads to."""

    def new_run(self, job: "Job", wanted: "RunRequest") -> "NewRun":
        """A run of a job; raises `CannotRun`."""

    def open_run(self, folder: Path) -> RunReader:
        """The run in `folder`, which it has started, maybe on another machine.

        It need not ask anybody; if the run cannot be reached, that is what the reader's `run` says.
        """


class NewRun(Protocol):
    """A run that has not started.

    `place` comes first, then `prepare` and `run`; or `check` alone. All but `run` raise `CannotRun`.
    """

    def place(self) -> "Placement":
        """Where its tasks are going to run, as far as that is known by now."""

    def check(self, plans: "Mapping[TaskName, Plan]") -> None:
        """Check all that `prepare` checks, and tell the view the same, without making anything."""

    def prepare(self, plans: "Mapping[TaskName, Plan]", secrets: Mapping[str, str]) -> None:
        """Make all that the tasks with these plans need; the job's others do not run.

        `secrets`: the values, by the paths that the plans name.
        """

    def run(self) -> tuple[Run, int]:
        """Start the tasks and follow them to their end: the run as it was then, and its exit status."""


@dataclass(frozen=True)
class RunRequest:
    """How a job is to be run.

    `folder` is that of the run, and empty; `timeout` in seconds, for the whole run. `storages`: directories
    of this machine by storage name; `environment`: names of variables of ours that tasks are to have, beside
    those that the job asks for. `code`: what is in the working directory of each task when it starts.
    `definitions`: a lock file that carries all definitions which the job requires, for the directory of the
    run and for pods; empty if it requires none.
    """

    folder: Path
    user: str
    view: View
    timeout: float | None
    isolation: IsolationMode
    storages: Mapping[str, Path]
    environment: tuple[str, ...]
    code: "Code | None"
    definitions: str


def open_run(folder: Path) -> RunReader | Unreadable:
    """The run in a directory, opened by its engine."""
    name = read_engine(folder)
    if isinstance(name, Unreadable):
        return name
    try:
        return find_engine(name).open_run(folder)
    except NoEngine as error:
        return Unreadable(str(error))
    except Exception as error:  # noqa: BLE001 - an engine that is broken spoils only its own runs
        return Unreadable(f"its engine '{name}' failed to open it: {type(error).__name__}: {error}")


class NoEngine(Exception):
    """The engine of a run is not here, or does not work."""


@cache
def find_engine(name: str) -> Engine:
    """The installed engine of this name; raises `NoEngine`."""
    found = [("pai-runtime", OWN[name])] if name in OWN else list(_claims(name))
    if not found:
        raise NoEngine(f"its engine '{name}' is not installed here")
    if len(found) > 1:
        owners = ", ".join(sorted(owner for owner, _ in found))
        raise NoEngine(f"its engine '{name}' is provided by several distributions: {owners}")
    ((distribution, value),) = found
    module, _, attribute = value.partition(":")
    try:
        engine: Any = import_module(module.strip())
        for part in filter(None, attribute.strip().split(".")):
            engine = getattr(engine, part)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise NoEngine(f"its engine '{name}' of {distribution} cannot be imported: {what}") from error
    checked: Engine = engine
    return checked


def _claims(name: str) -> Iterator[tuple[str, str]]:
    """The distributions that bring an engine of this name, and the value of its entry point."""
    for distribution in distributions_with(GROUP):
        owner, _ = name_and_version(distribution)
        yield from ((owner, value) for each, value in entry_points(distribution, GROUP) if each == name)
