"""A run in the form of ``ps --json``; times are in seconds since 1970."""

from collections import Counter
from typing import Any

from pai_runtime.cli.found_run import FoundRun
from pai_runtime.runs.failed_callbacks import failed_callbacks
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.provenance import settings
from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.runs.usage import usage_in
from pai_runtime.terminal.words import last_line


def summary(found: FoundRun) -> dict[str, Any]:
    """Return a run as an entry of a list."""
    run, reader = found.run, found.reader
    named = {"folder" if reader.folder else "run": reader.named, **({"on": reader.on} if reader.on else {})}
    if isinstance(run, Unreadable):
        return {**named, "state": found.state, "reason": run.reason}
    return {
        **named,
        **({"user": run.user} if run.user else {}),
        "job": run.job,
        "state": found.state,
        **({"stopping": run.stopping, "queued": run.queued, "note": run.note} if run.user else {}),
        "started": run.started,
        "ended": run.ended,
        "retries": run.retries,
        "taskCount": run.listed_tasks or len(run.tasks),
        "taskStates": Counter(run.state_of(task) for task in run.tasks),
        "failedCallbacks": sum(task.failed_callbacks for task in run.tasks),
        "set": settings(reader.provenance(whole=False)),
    }


def details(found: FoundRun) -> dict[str, Any]:
    """Return a run with its tasks."""
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable):
        return summary(found)
    activities = activity(reader, run)
    tasks = [_task(reader, run, task, activities[task.name]) for task in run.tasks]
    return {**summary(found), "failedTask": run.failed_task, "tasks": tasks}


def _task(reader: RunReader, run: Run, task: RunTask, progress: Progress | None) -> dict[str, Any]:
    usage = usage_in(reader.exit_record(task)) if task.over else None
    return {
        "role": task.role,
        "index": task.index,
        "state": run.state_of(task),
        "exitCode": task.exit_code,
        "retries": task.retries,
        "started": task.started,
        "ended": task.ended,
        "phase": progress.phase if progress else None,
        "use": progress.use if progress else None,
        "since": progress.since if progress else None,
        "heldUntil": progress.held_until if progress else None,
        "release": progress.release if progress else None,
        "services": dict(progress.addresses) if progress else {},
        "failedServices": dict(progress.failed_services) if progress else {},
        **({"node": task.node, "note": task.note} if run.user else {}),
        "lastLine": last_line(reader, task, progress),
        "failedCallbacks": task.failed_callbacks,
        "callbackFailures": _callback_failures(reader, task),
        "usage": usage.to_json() if usage else None,
    }


def _callback_failures(reader: RunReader, task: RunTask) -> list[dict[str, Any]]:
    """Return the callbacks that failed after the command, as far as the exit record names them."""
    return [
        {
            "event": each.event,
            "use": each.use,
            "source": each.source,
            "exitCode": each.exit_code,
            "cutShort": each.cut_short,
        }
        for each in (failed_callbacks(reader.exit_record(task)) if task.failed_callbacks else ())
    ]
