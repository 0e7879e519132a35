"""The run and the task that the command line names."""

from pai_runtime.cli.found_run import find_run
from pai_runtime.runs.names import NoSuchRun, named_run
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.terminal.words import task_ranges


class NotThere(Exception):
    """The named run or task does not exist, or cannot be read."""


def given_run(name: str) -> tuple[RunReader, Run]:
    """The run that is called so; raises `NotThere`."""
    try:
        folder = named_run(name)
    except NoSuchRun as error:
        raise NotThere(str(error)) from None
    found = find_run(folder)
    if isinstance(found.run, Unreadable):
        reason = found.run.reason
        raise NotThere(f"{folder} is not the directory of a run: {reason}; pai-runtime ps lists the runs")
    return found.reader, found.run


def given_task(reader: RunReader, run: Run, name: tuple[str, int]) -> RunTask:
    """The task of this role and index; raises `NotThere`."""
    for task in run.tasks:
        if (task.role, task.index) == name:
            return task
    raise NotThere(f"no task '{name[0]}/{name[1]}' in {reader.named}; known: {task_ranges(run)}")
