"""A report as a JSON document; times are in seconds since 1970, as in ``ps --json``."""

from typing import Any

from pai_report.gathering import FailureReport, Report, TaskReport
from pai_runtime.command.runs import settings


def document(report: Report) -> dict[str, Any]:
    """Return the document, without logs, environments and plans, for which there are other commands."""
    run, reader = report.run, report.reader
    return {
        "reportVersion": 1,
        "run": reader.named,
        "on": reader.on or None,
        "user": run.user or None,
        "job": run.job,
        "file": run.file,
        "state": run.state,
        "started": run.started,
        "ended": run.ended,
        "retries": run.retries,
        "failedTask": run.failed_task,
        "set": settings(report.provenance),
        "written": report.written,
        "failures": [_failure(each) for each in report.failures],
        "failuresLeftOut": report.failures_left_out,
        "tasks": [_task(each) for each in report.tasks],
        "tasksLeftOut": report.tasks_left_out,
    }


def _failure(report: FailureReport) -> dict[str, Any]:
    failure = report.failure
    return {
        "task": failure.task.name,
        "exitCode": failure.task.exit_code,
        "message": failure.message,
        "phrase": failure.phrase,
        "reason": failure.reason,
        "solutions": list(failure.solutions),
        "becauseOfPeer": failure.because_of_peer,
        "matched": failure.quote,
        "context": [line.text for line in report.context],
    }


def _task(report: TaskReport) -> dict[str, Any]:
    task = report.task
    return {
        "role": task.role,
        "index": task.index,
        "state": report.state,
        "exitCode": task.exit_code,
        "retries": task.retries,
        "started": task.started,
        "ended": task.ended,
        "failedCallbacks": task.failed_callbacks,
        "usage": report.usage.to_json() if report.usage else None,
        "spans": [
            {
                "attempt": span.attempt,
                "kind": span.kind,
                "what": span.what,
                "start": span.start,
                "end": span.end,
                "result": span.result,
            }
            for span in report.spans
        ],
        "spansLeftOut": report.spans_left_out,
    }
