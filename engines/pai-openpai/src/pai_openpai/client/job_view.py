"""A job as the cluster shows it: its detail and its configuration, read as a run with its tasks."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

from pai_network.fields import mapping, mappings, string
from pai_openpai.client.fields import moment, number
from pai_openpai.client.messages import MOST_SAID
from pai_openpai.client.names import job_of
from pai_runtime.engine import Run, RunTask
from pai_runtime.engine.jobs import framework_name
from pai_runtime.engine.messages import printable, server_text
from pai_runtime.engine.records import RunOutcome, TaskName, TaskStatus

ENGINE: Final = "openpai"
_OUTCOMES: Final[Mapping[str, RunOutcome]] = {
    "SUCCEEDED": "succeeded",
    "STOPPED": "cancelled",
    "FAILED": "failed",
}
_STATES: Final[Mapping[str, TaskStatus]] = {
    "RUNNING": "running",
    "STOPPING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "STOPPED": "stopped",
}
_ROLE: Final = re.compile(r"[\w-]{1,255}", re.ASCII)
_CODES: Final = range(256)
_OTHERWISE: Final = "PAIRuntimeExitAbnormally"
"""The phrase for codes that the cluster's exit spec does not list; it blames the platform."""
_MOST_TASKS: Final = 20_000


@dataclass(frozen=True)
class Attempt:
    """An attempt of a task: by number that of the job, and the task's own in it."""

    job: int
    task: int

    @property
    def number(self) -> int:
        """How often the task was started before, with the whole job or on its own."""
        return self.job + self.task


@dataclass(frozen=True)
class Config:
    """The configuration of a job as everybody can read it: its secrets are masked."""

    document: Mapping[str, Any] = field(default_factory=dict)

    def roles(self) -> Mapping[str, str]:
        """Return the task roles as they are written, by their converted names."""
        return {framework_name(role): role for role in self._written()}

    def tasks(self) -> Iterator[TaskName]:
        """Yield the names of all tasks."""
        left = _MOST_TASKS
        for role in self._written():
            count = max(0, min(number(mapping(self.document, "taskRoles", role), "instances") or 0, left))
            left -= count
            yield from ((role, index) for index in range(count))

    def _written(self) -> Iterator[str]:
        yield from filter(_ROLE.fullmatch, mapping(self.document, "taskRoles"))

    def fails_at_first(self, role: str) -> bool:
        """Return whether the first task of a role that fails decides the job."""
        completion = mapping(self.document, "taskRoles", role, "completion")
        return (number(completion, "minFailedInstances") or 1) == 1

    def plugins(self) -> Iterator[str]:
        """Yield the names of the plugins that it uses."""
        in_extras = mappings(self.document, "extras", "com.microsoft.pai.runtimeplugin")
        for each in chain(in_extras, mappings(self.document, "prerequisites")):
            yield string(each, "plugin").rpartition(".")[2]


@dataclass(frozen=True)
class JobView:
    """A job at one time: the run, and what the cluster says of each of its tasks, by name."""

    run: Run
    job_attempt: int
    rows: Mapping[str, Mapping[str, Any]]

    @cached_property
    def tasks(self) -> Mapping[str, RunTask]:
        """The tasks of the run by name."""
        return {task.name: task for task in self.run.tasks}

    def attempt(self, task: str) -> Attempt | None:
        """Return the last attempt of a task; None before there is one."""
        row = self.rows.get(task)
        return None if row is None else Attempt(self.job_attempt, _own_attempt(row))


def listed_run(document: Mapping[str, Any]) -> Run:
    """Return a run as a list of jobs has it: without its tasks."""
    run = _run(document, string(document, "name"), ())
    return replace(run, listed_tasks=max(0, number(document, "totalTaskNumber") or 0))


def job_view(detail: Mapping[str, Any], config: Config, reasons: Mapping[str, str]) -> JobView:
    """Return a job by its detail; `reasons` are those for which tasks wait, by name."""
    status, rows = mapping(detail, "jobStatus"), dict(_rows(detail, config))
    job_attempt = max(0, number(status, "attemptId") or 0)
    names = [f"{role}/{index}" for role, index in config.tasks()] or list(rows)
    tasks = [_task(name, rows.get(name, {}), job_attempt, reasons) for name in names]
    if is_over(status):
        tasks = [each if each.over else replace(each, state="stopped", note="") for each in tasks]
    run = _run(status, string(detail, "name"), tuple(tasks))
    if run.outcome == "failed":
        failed = _failed_task(status, config, run)
        why = (
            ""
            if failed
            else explained(mapping(status, "appExitSpec")) or string(status, "appExitDiagnostics")
        )
        run = replace(run, failed_task=failed, note=_said(why))
    return JobView(run, job_attempt, rows)


def is_over(status: Mapping[str, Any]) -> bool:
    """Return whether a job is over, by its status; until then its state is that of its last attempt."""
    return string(status, "subState") == "Completed"


def explained(spec: Mapping[str, Any]) -> str:
    """Return what the cluster's exit spec says of an exit code; empty if it does not list it."""
    return "" if string(spec, "phrase") == _OTHERWISE else string(spec, "reason")


def _run(status: Mapping[str, Any], name: str, tasks: tuple[RunTask, ...]) -> Run:
    over, state = is_over(status), string(status, "state")
    started = moment(status, "submissionTime") or moment(status, "createdTime") or 0.0
    return Run(
        job=printable(job_of(name)),
        engine=ENGINE,
        file="",
        started=started,
        retries=max(0, number(status, "retries") or 0),
        tasks=tasks,
        ended=(moment(status, "completedTime") or started) if over else None,
        outcome=_OUTCOMES.get(state, "failed") if over else None,
        stopping=string(status, "executionType") == "STOP" and not over,
        queued=state == "WAITING" or string(status, "subState") == "AttemptCompleted",  # between attempts
        user=printable(string(status, "username")),
    )


def _rows(detail: Mapping[str, Any], config: Config) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what the detail says of each task, with the task's name as it is written in the job."""
    written = config.roles()
    for role in mapping(detail, "taskRoles"):
        for row in mappings(detail, "taskRoles", role, "taskStatuses"):
            index, name = number(row, "taskIndex"), written.get(role, role)
            if index in range(_MOST_TASKS) and _ROLE.fullmatch(name):
                yield f"{name}/{index}", row


def _own_attempt(row: Mapping[str, Any]) -> int:
    return max(0, number(row, "attemptId") or 0)


def _task(name: str, row: Mapping[str, Any], job_attempt: int, reasons: Mapping[str, str]) -> RunTask:
    role, _, index = name.rpartition("/")
    state = _STATES.get(string(row, "taskState"), "waiting")
    code = number(row, "containerExitCode")
    note = ""
    if state == "waiting":
        note = reasons.get(name, "")
    elif state == "failed" and code is not None and code not in _CODES:
        note = f"{explained(mapping(row, 'containerExitSpec')) or 'ended by the cluster'} ({code})"
    return RunTask(
        role=role,
        index=int(index),
        state=state,
        exit_code=code if code in _CODES and state in ("succeeded", "failed") else None,
        retries=job_attempt + _own_attempt(row),
        started=moment(row, "currentAttemptLaunchedTime"),
        ended=moment(row, "completedTime"),
        node=printable(string(row, "containerNodeName")),
        note=_said(note),
    )


def _failed_task(status: Mapping[str, Any], config: Config, run: Run) -> str | None:
    """Return the task that failed first: that by which the job was decided, unless several had to fail."""
    index = number(status, "appExitTriggerTaskIndex")
    role = string(status, "appExitTriggerTaskRoleName")
    role = config.roles().get(role, role)
    failed = [task for task in run.tasks if task.state == "failed"]
    if f"{role}/{index}" in (task.name for task in failed) and config.fails_at_first(role):
        return f"{role}/{index}"
    return min(failed, key=lambda task: task.ended or run.started).name if failed else None


def _said(text: str) -> str:
    return printable(server_text(text, MOST_SAID))
