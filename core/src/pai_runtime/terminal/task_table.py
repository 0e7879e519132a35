"""The tasks of a run as a table."""

from collections.abc import Sequence

from pai_document.amounts import counted
from pai_runtime.runs.failed_callbacks import failed_callbacks
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import Activity, RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.table import table
from pai_runtime.terminal.times import elapsed
from pai_runtime.terminal.words import last_line, phase

_TITLES = ("TASK", "STATE", "PHASE", "ELAPSED", "ATTEMPTS", "LAST LINE")


def task_table(
    reader: RunReader,
    run: Run,
    tasks: Sequence[RunTask],
    activities: Activity,
    now: float,
    width: int | None = None,
) -> list[str]:
    """Return a line of titles and a line for each task, with their nodes if any is known."""
    rows = [_TITLES, *(_row(reader, run, task, activities[task.name], now) for task in tasks)]
    if any(task.node for task in run.tasks):
        nodes = ["NODE", *(task.node for task in tasks)]
        rows = [(*row[:2], node, *row[2:]) for row, node in zip(rows, nodes, strict=True)]
    return table(rows, width)


def _row(
    reader: RunReader, run: Run, task: RunTask, progress: Progress | None, now: float
) -> tuple[str, ...]:
    """Return the cells of a task; the elapsed time is that of its last attempt."""
    state = run.state_of(task)
    return (
        task.name,
        state,
        phase(task, progress, now) + _callbacks(reader, task),
        elapsed(task.started, task.ended, now) if state != "lost" else "",
        str(task.retries + 1) if task.started or task.retries else "",
        last_line(reader, task, progress),
    )


def _callbacks(reader: RunReader, task: RunTask) -> str:
    """Describe which callback of a task failed after its command, and how many more did."""
    if not task.failed_callbacks:
        return ""
    for first in failed_callbacks(reader.exit_record(task)):
        more = f" and {task.failed_callbacks - 1} more" if task.failed_callbacks > 1 else ""
        return f"; {first.event} {first.use}{more} failed"
    return f"; {counted(task.failed_callbacks, 'callback', 'callbacks')} failed"
