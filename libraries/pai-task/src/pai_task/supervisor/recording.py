"""Writing of a task's exit record, to its directory and to where the platform expects it."""

from __future__ import annotations

import os
import sys

from pai_task.events import EventFile
from pai_task.exit_codes import CALLBACK_FAILED, RUNTIME_ERROR
from pai_task.exit_record import exit_record, termination_message
from pai_task.folder import Folder
from pai_task.layout import RECORD
from pai_task.outcome import Result
from pai_task.state import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import replace

    from pai_task.launch import LaunchOptions
    from pai_task.supervisor.task import Task
    from pai_task.vocabulary import Outcome
else:
    from pai_task.record import replace

_BEFORE_COMMAND = ("init", "taskStarts")


def cannot_run(folder: Folder, message: str, options: LaunchOptions) -> int:
    """Report that a task cannot be run, with an exit record; return its exit code."""
    sys.stderr.write(f"pai-runtime: {message}\n")
    result = Result("setup-failed", RUNTIME_ERROR, "init", message=message)
    write_record(folder, exit_record(result), options)
    journal = Journal(folder, EventFile(folder))
    journal.add("supervisorStarted", pid=options.pid or os.getpid(), phases=options.phases)
    journal.add("ended", outcome=result.outcome, exitCode=result.code)
    return RUNTIME_ERROR


def cannot_go_on(task: Task, message: str) -> int:
    """Report that a task cannot be continued, with an exit record; return its exit code.

    A result that was decided before is kept; only callbacks are missing then.
    """
    sys.stderr.write(f"pai-runtime: {message}\n")
    phase, decided = task.progress.phase, task.progress.result
    if decided is None:
        outcome: Outcome = "setup-failed" if phase in _BEFORE_COMMAND else "failed"
        result = Result(outcome, RUNTIME_ERROR, phase, message=message)
    elif decided.outcome == "ok" and task.plan.strict_callbacks:
        result = replace(decided, outcome="failed", code=CALLBACK_FAILED, phase=phase, message=message)
    else:
        result = replace(decided, message="; ".join(filter(None, (decided.message, message))))
    lost = 0 if decided is None else 1
    preemption = task.progress.preemption
    text = exit_record(result, (), task.logs.tails(), task.logs.masks.mask, lost, preemption=preemption)
    write_record(task.folder, text, task.options)
    task.journal.add("ended", outcome=result.outcome, exitCode=result.code)
    return result.code


def write_record(folder: Folder, text: str, options: LaunchOptions) -> list[str]:
    """Write the exit record to all its places; return, and print, a message for each that failed."""
    faults = _written(lambda: folder.write(RECORD, text), f"{folder.where}/{RECORD}")
    faults = [f"{fault}\n{text}" for fault in faults]  # else it would be nowhere
    logs, termination_log = options.logs, options.termination_log
    if logs is not None:
        faults += _written(lambda: _copy(logs, text), f"{logs}/{RECORD}")
    if termination_log is not None:
        message = termination_message(text).encode()
        faults += _written(lambda: _overwrite(termination_log, message), termination_log)
    for fault in faults:
        sys.stderr.write(f"pai-runtime: {fault}\n")
    return faults


def _written(write: Callable[[], None], path: str) -> list[str]:
    try:
        write()
    except OSError as error:
        return [f"cannot write {path}: {error.strerror}"]
    return []


def _copy(logs: str, text: str) -> None:
    with Folder.at(logs) as folder:
        folder.write(RECORD, text)


def _overwrite(path: str, data: bytes) -> None:
    """Write a file in place: on Kubernetes it is a mounted file, which cannot be replaced by renaming."""
    above, name = os.path.split(path)
    with Folder.at(above or ".") as folder:
        fd = folder.append(name)
    with os.fdopen(fd, "wb") as file:
        file.truncate(0)
        file.write(data)
