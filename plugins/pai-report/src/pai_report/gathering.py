"""All that a report has, gathered from a run by its engine's reader, and bounded."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pai_report.excerpts import Excerpt, Line, excerpt, in_context
from pai_report.timeline import Span, spans_of
from pai_runtime.command.runs import (
    Failure,
    Provenance,
    Run,
    RunReader,
    RunTask,
    Summary,
    Usage,
    plan_lines,
    summarise,
)
from pai_runtime.plugin import Output

_MOST_TASKS: Final = 1000
"""Tasks that are shown, those that have failed first."""
_MOST_FAILURES: Final = 50
"""Failures that are shown with what their logs say."""
_MOST_SPANS: Final = 50_000
_LEAST_SPANS: Final = 40
"""Spans of all tasks, and the fewest of each one, that are shown."""
_LOG_BYTES: Final = 4 * 1024 * 1024
_LEAST_LOG: Final = 2 * 1024
_MOST_LOG: Final = 256 * 1024
"""Bytes of the logs of all tasks, and the least and the most of each log, that are shown."""
_MOST_VARIABLES: Final = 300
_MOST_VALUE: Final = 500
"""Variables of a task, and characters of a value, that are shown."""
_MOST_PLANS: Final = 20
_MOST_PLAN_LINES: Final = 2000
"""Roles whose plan is shown, and lines of each."""


@dataclass(frozen=True)
class Setting:
    """A variable of a task with its value, None if it is not kept, and who has set it."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class Variables:
    """The variables of a task; only those that differ from the ones of the task `like`, if there is one."""

    settings: Sequence[Setting]
    like: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class TaskReport:
    """What became of a task; `spans` lacks the last `spans_left_out`."""

    task: RunTask
    state: str
    spans: Sequence[Span]
    spans_left_out: int
    usage: Usage | None
    variables: Variables
    logs: Mapping[str, Excerpt]


@dataclass(frozen=True)
class FailureReport:
    """A failure, with the line that a rule has matched in its place in the log."""

    failure: Failure
    context: Sequence[Line]


@dataclass(frozen=True)
class RolePlan:
    """The plan of the first task of a role, as text."""

    role: str
    lines: Sequence[str]
    left_out: int


@dataclass(frozen=True)
class Report:
    """What became of a run; `written` is when the report was made, in seconds since 1970."""

    reader: RunReader
    run: Run
    summary: Summary
    provenance: Provenance
    written: float
    failures: Sequence[FailureReport]
    failures_left_out: int
    tasks: Sequence[TaskReport]
    tasks_left_out: int
    plans: Sequence[RolePlan]


def gather(reader: RunReader, run: Run, output: Output) -> Report:
    """Return the report of a run, which may still go on."""
    summary = summarise(reader, run)
    failures = [*([summary.failure] if summary.failure else []), *summary.others]
    chosen = _chosen(run)
    usages = {task.name: usage for task, usage in summary.usage}
    first_of = {task.role: task for task in reversed(run.tasks)}
    firsts = {role: _variables(reader, task) for role, task in first_of.items()}
    log_bytes = min(_MOST_LOG, max(_LEAST_LOG, _LOG_BYTES // (2 * len(chosen) or 1)))
    most_spans = max(_LEAST_SPANS, _MOST_SPANS // (len(chosen) or 1))
    tasks = []
    for task in chosen:
        spans = sorted(islice(spans_of(reader, run, task), most_spans + 1), key=lambda span: span.start)
        first = first_of[task.role]
        found = firsts[task.role]
        settings = found if task is first else _difference(_variables(reader, task), found)
        tasks.append(
            TaskReport(
                task,
                run.state_of(task),
                spans[:most_spans],
                len(spans[most_spans:]),
                usages.get(task.name),
                Variables(
                    settings[:_MOST_VARIABLES],
                    "" if task is first else first.name,
                    len(settings[_MOST_VARIABLES:]),
                ),
                {name: excerpt(reader, task, name, log_bytes, output) for name in ("user", "runtime")},
            )
        )
    return Report(
        reader,
        run,
        summary,
        reader.provenance(),
        time.time(),
        [
            FailureReport(each, in_context(reader, each.task, each.quote, output))
            for each in failures[:_MOST_FAILURES]
        ],
        len(failures[_MOST_FAILURES:]),
        tasks,
        len(run.tasks) - len(chosen),
        list(_plans(reader, islice(first_of.values(), _MOST_PLANS))),
    )


def _chosen(run: Run) -> list[RunTask]:
    """Return the tasks that are shown, in their order in the job."""
    by_need = sorted(run.tasks, key=lambda task: (task.name != run.failed_task, task.state != "failed"))
    names = {task.name for task in by_need[:_MOST_TASKS]}
    return [task for task in run.tasks if task.name in names]


def _plans(reader: RunReader, tasks: Iterator[RunTask]) -> Iterator[RolePlan]:
    for task in tasks:
        if plan := reader.plan(task):
            lines = list(plan_lines(plan))
            yield RolePlan(task.role, lines[:_MOST_PLAN_LINES], len(lines[_MOST_PLAN_LINES:]))


def _variables(reader: RunReader, task: RunTask) -> list[Setting]:
    """Return the variables of a task; none if they are not known."""
    try:
        found = reader.variables(task).known
        return [Setting(name, _value(each), str(each["source"])) for name, each in found.items()]
    except (AttributeError, KeyError, OSError, TypeError, ValueError, RecursionError):
        return []


def _value(variable: Mapping[str, Any]) -> str | None:
    if "value" not in variable:
        return None
    value = str(variable["value"])
    return value if len(value) <= _MOST_VALUE else f"{value[:_MOST_VALUE]}… ({len(value)} characters)"


def _difference(settings: Sequence[Setting], others: Sequence[Setting]) -> list[Setting]:
    known = set(others)
    return [each for each in settings if each not in known]
