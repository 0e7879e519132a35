"""The engine, the run and the task that a command line names."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pai_document.problems import near_miss
from pai_runtime.cli.user import user_name
from pai_runtime.engines.interface import Engine
from pai_runtime.engines.local.machine import LocalEngine
from pai_runtime.runs.errors import ClusterError
from pai_runtime.runs.names import LATEST, NoSuchRun
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.terminal.words import command_on, full_name, task_ranges
from pai_task.record import record

if TYPE_CHECKING:
    from pai_runtime.host.host import Host


class NotThere(Exception):
    """The exception for a run or task that does not exist, or cannot be read."""


def given_engine(on: str | None, host: "Host | None" = None, container: str | None = None) -> Engine:
    """Return the engine of a profile; without one, this machine.

    It is a plugin of a host, or of one under the usual policies. With `container`, the program that makes
    them, tasks run there in containers. Raises `InvalidInput`.
    """
    if on is None and container is None:
        return LocalEngine()
    from pai_runtime.engines.finding import open_container_engine, open_engine  # noqa: PLC0415 - local runs need none
    from pai_runtime.host.policies_in_force import given_host  # noqa: PLC0415 - as above

    host = host or given_host(None)
    return open_container_engine(container, host) if container is not None else open_engine(str(on), host)


def refusal(engine: Engine, word: str, on: str | None) -> str:
    """Return why an engine cannot do what a word of the command line means; empty if it can."""
    reason = engine.cannot.get(word)
    return f"{word} cannot be used on {on or 'this machine'}: {reason}" if reason else ""


def engine_for(command: str, on: str | None) -> Engine:
    """Return the engine that the command is to be used on. Raises `NotThere` or `InvalidInput`."""
    engine = given_engine(on)
    if reason := refusal(engine, command, on):
        raise NotThere(reason)
    return engine


def find_run(engine: Engine, name: str) -> RunReader:
    """Return the run of this name, whether it is readable or not. Raises `NotThere`."""
    try:
        return engine.find_run(name, user_name() if name == LATEST else "")
    except NoSuchRun as error:
        raise NotThere(str(error)) from None


def given_run(command: str, name: str, on: str | None = None) -> tuple[RunReader, Run]:
    """Return the run that a command names. Raises `NotThere` or `InvalidInput`."""
    engine = engine_for(command, on)
    reader = find_run(engine, name)
    run = reader.run()
    if isinstance(run, Unreadable):
        raise not_readable(engine, reader, run)
    return reader, run


def not_readable(engine: Engine, reader: RunReader, run: Unreadable) -> NotThere:
    """Return the exception for a run that is none, which names one of a similar name, or is unreadable."""
    meant = None
    if run.is_missing:
        with contextlib.suppress(ClusterError):  # that there is no such run is what matters
            meant = near_miss(reader.named, (each.named for each, _ in engine.runs()))
    hint = f"did you mean {meant}?" if meant else f"{command_on(reader.on, 'ps')} lists the runs"
    return NotThere(f"cannot read the run {full_name(reader)}: {run.reason}; {hint}")


@record(frozen=True)
class GivenTasks:
    """A run, and the tasks of it that a command line names; `rest` are the words after them."""

    reader: RunReader
    run: Run
    tasks: tuple[RunTask, ...]
    rest: tuple[str, ...] = ()

    def only(self) -> RunTask:
        """Return the one task. Raises `NotThere` if there are several."""
        if len(self.tasks) != 1:
            raise NotThere(f"expected one task of {self.reader.named}: {task_ranges(self.run)}")
        return self.tasks[0]


def given_tasks(command: str, words: Sequence[str], on: str | None = None) -> GivenTasks:
    """Return what ``[RUN] [ROLE[/INDEX]] …`` names; a run that is left out is the latest.

    Raises `NotThere` or `InvalidInput`.
    """
    name, *rest = words or (LATEST,)
    try:
        reader, run = given_run(command, name, on)
    except NotThere as no_run:
        try:
            reader, run = given_run(command, LATEST, on)
        except NotThere:
            raise no_run from None
        if not (tasks := _named(run, name)):
            raise no_run from None
        return GivenTasks(reader, run, tasks, tuple(rest))
    if not rest:
        return GivenTasks(reader, run, run.tasks)
    if tasks := _named(run, rest[0]):
        return GivenTasks(reader, run, tasks, tuple(rest[1:]))
    raise NotThere(f"no task '{rest[0]}' in {reader.named}; known: {task_ranges(run)}")


def _named(run: Run, name: str) -> tuple[RunTask, ...]:
    return tuple(task for task in run.tasks if name in (task.name, task.role))
