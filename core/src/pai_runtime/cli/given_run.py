"""The run and the task that a command line names."""

from typing import TYPE_CHECKING

from pai_runtime.cli.found_run import find_run
from pai_runtime.runs.names import LATEST, NoSuchRun, named_run
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.terminal.words import task_ranges

if TYPE_CHECKING:
    from pai_runtime.engines.cluster import Cluster, ClusterRunReader


class NotThere(Exception):
    """The exception for a run or task that does not exist, or cannot be read."""


def given_run(name: str, on: str | None = None) -> tuple[RunReader, Run]:
    """Return the run of this name, here or `on` a cluster.

    Raises `NotThere`, or `InvalidInput` for a profile.
    """
    if on is not None:
        return given_run_on_cluster(name, on)
    try:
        folder = named_run(name)
    except NoSuchRun as error:
        raise NotThere(str(error)) from None
    found = find_run(folder)
    if isinstance(found.run, Unreadable):
        reason = found.run.reason
        raise NotThere(f"{folder} is not the directory of a run: {reason}; pai-runtime ps lists the runs")
    return found.reader, found.run


def given_run_on_cluster(name: str, on: str) -> "tuple[ClusterRunReader, Run]":
    """Return the run of this name on the cluster of a profile. Raises `NotThere` or `InvalidInput`."""
    reader = reader_on_cluster(name, on)
    run = reader.run()
    if isinstance(run, Unreadable):
        lists = f"pai-runtime ps --on {on} lists the runs"
        raise NotThere(f"cannot read run '{reader.named}' on {on}: {run.reason}; {lists}")
    return reader, run


def reader_on_cluster(name: str, on: str) -> "ClusterRunReader":
    """Return a reader of a run on a cluster, whether it exists or not. Raises as `given_run_on_cluster`."""
    from pai_runtime.cli.given_cluster import given_cluster  # noqa: PLC0415 - local runs need none

    cluster = given_cluster(on)
    return _latest(cluster, on) if name == LATEST else cluster.open_run(name)


def _latest(cluster: "Cluster", on: str) -> "ClusterRunReader":
    from pai_runtime.cli.user import user_name  # noqa: PLC0415 - as above

    user = user_name()
    for reader, run in cluster.runs():
        if isinstance(run, Run) and run.user == user:
            return reader
    raise NotThere(f"there is no run of the user '{user}' on {on}; pai-runtime ps --on {on} lists all runs")


def given_task(reader: RunReader, run: Run, name: tuple[str, int]) -> RunTask:
    """Return the task of a run by role and index. Raises `NotThere`."""
    for task in run.tasks:
        if (task.role, task.index) == name:
            return task
    raise NotThere(f"no task '{name[0]}/{name[1]}' in {reader.named}; known: {task_ranges(run)}")
