"""The engine, the run and the task that a command line names."""

from pathlib import Path

from pai_runtime.cli.user import user_name
from pai_runtime.engines.interface import Engine
from pai_runtime.engines.local.machine import LocalEngine
from pai_runtime.runs.names import LATEST, NoSuchRun
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.terminal.words import command_on, full_name, task_ranges


class NotThere(Exception):
    """The exception for a run or task that does not exist, or cannot be read."""


def given_engine(on: str | None, policy: Path | None = None) -> Engine:
    """Return the engine of a profile, under all policies that there are; without one, this machine.

    Raises `InvalidInput`.
    """
    if on is None:
        return LocalEngine()
    from pai_runtime.engines.finding import open_engine  # noqa: PLC0415 - local runs need none
    from pai_runtime.host.policies_in_force import given_host  # noqa: PLC0415 - as above

    return open_engine(on, given_host(policy))


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
    reader = find_run(engine_for(command, on), name)
    run = reader.run()
    if isinstance(run, Unreadable):
        raise not_readable(reader, run)
    return reader, run


def not_readable(reader: RunReader, run: Unreadable) -> NotThere:
    """Return the exception for a run that is none, or unreadable."""
    lists = f"{command_on(reader.on, 'ps')} lists the runs"
    return NotThere(f"cannot read the run {full_name(reader)}: {run.reason}; {lists}")


def given_task(reader: RunReader, run: Run, name: tuple[str, int]) -> RunTask:
    """Return the task of a run by role and index. Raises `NotThere`."""
    for task in run.tasks:
        if (task.role, task.index) == name:
            return task
    raise NotThere(f"no task '{name[0]}/{name[1]}' in {reader.named}; known: {task_ranges(run)}")
