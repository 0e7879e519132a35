"""Short texts about a run: for the live view, ``ps`` and messages."""

import shlex
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pai_document.amounts import counted
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import LogName, RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.text import MOST_NAMED, shown_line, some
from pai_runtime.terminal.times import clock, time_span
from pai_task.runtime_log import text_of

_KEPT = {
    "held": "has failed and is held for debugging",
    "lingering": "has ended and lingers with its services",
}
_STATES = ("running", "waiting", "succeeded", "failed", "stopped", "lost")
_TAIL_BYTES = 4096
_MOST_NAMED_WITH_NOTE = 3
_LONGEST_PHASE = 50


def short_path(path: Path) -> str:
    """Return a path relative to the working directory if it is below it, else absolute."""
    path = path.absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def command_for(reader: RunReader, command: str, *arguments: str) -> str:
    """Return a command line of ``pai-runtime`` about a run."""
    return command_on(reader.on, command, shown_name(reader), *arguments)


def command_on(on: str, *words: str) -> str:
    """Return a command line of ``pai-runtime`` on an engine profile, or without one."""
    return shlex.join(["pai-runtime", *words, *(("--on", on) if on else ())])


def shown_name(reader: RunReader) -> str:
    """Return the name of a run for messages: the short path of its directory, or its name on a cluster."""
    return short_path(reader.folder) if reader.folder else reader.named


def full_name(reader: RunReader) -> str:
    """Return the name of a run with the engine profile on which it is."""
    return f"{reader.named} on {reader.on}" if reader.on else reader.named


def counts(states: Iterable[str]) -> str:
    """Count tasks by state, such as ``2 running, 1 failed``."""
    number = Counter(states)
    return ", ".join(f"{number[state]} {state}" for state in _STATES if number[state])


def task_counts(run: Run) -> str:
    """Count the tasks of a run by state, and the callbacks that failed after their commands."""
    if run.listed_tasks:
        return counted(run.listed_tasks, "task", "tasks")
    failed = sum(task.failed_callbacks for task in run.tasks)
    states = counts(run.state_of(task) for task in run.tasks)
    return f"{states}, {counted(failed, 'callback', 'callbacks')} failed" if failed else states


def task_ranges(run: Run) -> str:
    """Return the names of the tasks, such as ``worker/0 to worker/3, server/0``; ranges may have gaps."""
    indexes: dict[str, list[int]] = {}
    for task in run.tasks:
        indexes.setdefault(task.role, []).append(task.index)
    return ", ".join(
        f"{role}/{found[0]}" + (f" to {role}/{found[-1]}" if len(found) > 1 else "")
        for role, found in indexes.items()
    )


def retries(run: Run) -> int:
    """Return how often anything of a run was restarted: the whole job, or one task."""
    return run.retries + sum(max(0, task.retries - run.retries) for task in run.tasks)


def phase(task: RunTask, progress: Progress | None, now: float) -> str:
    """Describe what a task is doing, or how it ended."""
    if task.over and task.exit_code is not None:
        return f"exit code {task.exit_code}"
    if progress is None:
        return f"{task.note[: _LONGEST_PHASE - 1]}…" if len(task.note) > _LONGEST_PHASE else task.note
    if progress.phase in _KEPT and progress.held_until is not None:
        return f"{progress.phase} until {clock(progress.held_until)}"
    if progress.phase == "command" and progress.stopping is None:
        return "command"
    took = time_span(now - progress.since)
    return " ".join(filter(None, (stopping(progress), progress.phase, progress.use, took)))


def stopping(progress: Progress) -> str:
    """Return ``stopping`` or ``killing`` if what a task is doing is being ended, else an empty string."""
    if progress.stopping is None:
        return ""
    return "killing" if progress.stopping == signal.SIGKILL else "stopping"


def last_line(reader: RunReader, task: RunTask, progress: Progress | None = None) -> str:
    """Return the last line of a task's output, complete or not; during its setup, of ``runtime.log``."""
    in_setup = progress is not None and progress.phase in ("init", "taskStarts")
    lines = tail(reader, task, "runtime" if in_setup else "user", 1)
    return lines[0] if lines else ""


def tail(reader: RunReader, task: RunTask, log: LogName, most: int) -> list[str]:
    """Return the last non-empty lines of a log, without the dates of ``runtime.log``."""
    data = reader.log(task, log).tail(_TAIL_BYTES)
    lines = (text_of(shown_line(line)) for line in data.split(b"\n"))
    return [line for line in lines if line.strip()][-most:]


def note_lines(tasks: Iterable[RunTask]) -> Iterator[str]:
    """Yield what a cluster says of tasks, one line for all with the same note."""
    noted: dict[str, list[str]] = {}
    for task in tasks:
        if task.note:
            noted.setdefault(task.note, []).append(task.name)
    for note, names in list(noted.items())[:MOST_NAMED]:
        yield f"{some(names, _MOST_NAMED_WITH_NOTE)}: {note}"
    if len(noted) > MOST_NAMED:
        yield f"and so on for {counted(len(noted) - MOST_NAMED, 'more reason', 'more reasons')}"


def lacking(tasks: Iterable[RunTask], named: Iterable[str]) -> list[RunTask]:
    """Return the few tasks that lack the note of all others of their roles; none if they are not few.

    Of tasks that hang, it is these that the others wait for.
    """
    has = set(named)
    roles = {name.rpartition("/")[0] for name in has}
    alike = [task for task in tasks if task.role in roles]
    others = [task for task in alike if task.name not in has]
    return others if len(others) <= len(alike) // 3 else []


def noted(note: str, named: Sequence[str], others: Iterable[RunTask], at: Mapping[str, str]) -> str:
    """Say which tasks a note is of, and which `others` lack it, with where those are, by name."""
    listed = [f"{task.name} ({at[task.name]})" if task.name in at else task.name for task in others]
    but = f", but not of {some(listed)}" if listed else ""
    return shown_line(f"note of {some(named)}{but}: {note}".encode("utf-8", "replace"))


def served_lines(task: RunTask, progress: Progress | None) -> Iterator[str]:
    """Yield where each service of a task is found."""
    if progress is not None:
        yield from (f"{task.name} serves {name} at {at}" for name, at in progress.addresses.items())


def service_lines(reader: RunReader, task: RunTask, progress: Progress | None) -> Iterator[str]:
    """Yield where each service of a task is found, or why it is not."""
    yield from served_lines(task, progress)
    if progress is not None:
        for name, why in progress.failed_services.items():
            yield failed_service(reader, [task.name], name, why)


def failed_service(reader: RunReader, tasks: Sequence[str], name: str, why: str) -> str:
    """Say why a service failed in the tasks of these names, and where the output of the first one is."""
    log = command_for(reader, "logs", tasks[0], "--runtime")
    return f"service '{name}' of {some(tasks)} failed: {why}; its output: {log}"


def kept(reader: RunReader, task: RunTask, progress: Progress | None) -> str | None:
    """Return a text that a task is held for debugging, or lingers for its services; None if neither.

    It says how to look at a held task, and how to release either.
    """
    if progress is None or progress.phase not in _KEPT:
        return None
    until = f" until {clock(progress.held_until)}" if progress.held_until is not None else ""
    release = (
        f"; to release it: touch {shlex.quote(progress.release)}" if progress.release is not None else ""
    )
    look = f"; to look at it: {command_for(reader, 'exec', task.name)}" if progress.phase == "held" else ""
    return f"{task.name} {_KEPT[progress.phase]}{until}{look}{release}"
