"""The status of a run in as many lines as fit the terminal."""

import time
from collections.abc import Sequence

from pai_document.amounts import counted
from pai_document.printable import printable
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import Activity, RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.task_table import task_table
from pai_runtime.terminal.text import cut
from pai_runtime.terminal.times import elapsed
from pai_runtime.terminal.words import command_for, counts, retries, service_lines, task_counts

_COLOURS = {"failed": "31", "held": "33", "succeeded": "32", "callbacks failed": "33"}
_SHARE_OF_SERVICES = 4
"""Services get at most one line of so many."""


def frame(
    reader: RunReader, run: Run, activities: Activity, size: tuple[int, int], *, colours: bool
) -> list[str]:
    """Return the lines of the status: the job, its most important tasks, counts of the others, and services.

    `size` is the terminal's: columns and rows. At most two thirds of the rows are used.
    """
    now = time.time()
    columns, rows = size
    room = max(1, rows * 2 // 3) - 2
    services = _services(reader, run, activities, max(0, room) // _SHARE_OF_SERVICES)
    shown, rest = _chosen(run.tasks, activities, room - len(services))
    tasks = task_table(reader, run, shown, activities, now)
    lines = [cut(line, columns - 1) for line in (_job_line(run, now), *tasks, *rest, *services)]
    lines = lines[: max(1, room + 2)]
    if not colours:
        return lines
    words = ["", "", *(_word(task, activities[task.name]) for task in shown), *("" for _ in rest + services)]
    return [
        f"\x1b[{_COLOURS[word]}m{line}\x1b[m" if word in _COLOURS else line
        for line, word in zip(lines, words, strict=False)
    ]


def _job_line(run: Run, now: float) -> str:
    again = f", {counted(retries(run), 'retry', 'retries')}" if retries(run) else ""
    took = elapsed(run.started, run.ended, now)
    return f"{run.job}: {run.word}, {took}: {task_counts(run)}{again}"


def _services(reader: RunReader, run: Run, activities: Activity, room: int) -> list[str]:
    """Return a line for each service for which there is room, and one that counts the others."""
    lines = [
        printable(line) for task in run.tasks for line in service_lines(reader, task, activities[task.name])
    ]
    if len(lines) <= room:
        return lines
    more = counted(len(lines) - room + 1, "more service", "more services")
    return [*lines[: room - 1], f"{more}: {command_for(reader, 'ps')}"] if room else []


def _chosen(tasks: Sequence[RunTask], activities: Activity, room: int) -> tuple[list[RunTask], list[str]]:
    """Return the tasks for which there is room, in the order of the job, and lines that count the others."""
    if len(tasks) <= room:
        return list(tasks), []
    roles = list(dict.fromkeys(task.role for task in tasks))
    together = len(roles) > room // 2
    most = max(0, room - (1 if together else len(roles)))
    chosen = set(sorted(tasks, key=lambda task: _rank(task, activities[task.name]))[:most])
    rest = [task for task in tasks if task not in chosen]
    groups = (
        {"all others": rest} if together else {role: [t for t in rest if t.role == role] for role in roles}
    )
    words = ("task", "tasks") if together else ("more task", "more tasks")
    lines = [
        f"{name}: {counted(len(group), *words)}: {counts(task.state for task in group)}"
        for name, group in groups.items()
        if group
    ]
    return [task for task in tasks if task in chosen], lines


def _rank(task: RunTask, progress: Progress | None) -> tuple[int, float]:
    """Return a sort key: the most important tasks first, such as held or failed ones, then the latest."""
    order = ["held", "failed", "callbacks failed", "step"]
    word = _word(task, progress)
    changed = max(task.started or 0, task.ended or 0, progress.since if progress else 0)
    return order.index(word) if word in order else len(order), -changed


def _word(task: RunTask, progress: Progress | None) -> str:
    if task.state != "failed" and task.failed_callbacks:
        return "callbacks failed"
    if progress is None or (progress.phase in ("command", "ended") and progress.stopping is None):
        return task.state
    return "held" if progress.phase == "held" else "step"
