"""The summary of a run: what failed, where and why, what was restarted, and which services it had."""

from collections.abc import Iterator, Mapping
from typing import Any

from pai_runtime.runs.failed_callbacks import FailedCallback, failed_callbacks
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.runs.usage import MOST_READ, Usage, usage_of_tasks
from pai_task.plan import EXIT_EVENTS
from pai_task.record import field, record
from pai_task.runtime_log import text_of

NOT_RETRIED = (
    "not retried, because the failure is permanent; to retry it anyway, set extras.retryOn to always"
)
"""The reason why a task, or the job, was not retried although it had retries left."""


@record(frozen=True)
class Failure:
    """A failed task with what its exit record says; without a record, `message` is empty.

    `quote` is the log line that a rule matched. `beside_command` means that not the command failed, but the
    setup before it or a callback after it.
    """

    task: RunTask
    message: str = ""
    phrase: str = ""
    reason: str = ""
    quote: str = ""
    solutions: tuple[str, ...] = ()
    because_of_peer: bool = False
    beside_command: bool = False


@record(frozen=True)
class Service:
    """A service of a task that could be reached at `address`; None if it failed, which `why` explains."""

    task: RunTask
    name: str
    address: str | None
    why: str = ""


@record(frozen=True)
class Callbacks:
    """The callbacks of a task that failed after its command: their number, and those that are known.

    A callback that failed the job is not among them.
    """

    task: RunTask
    count: int
    known: tuple[FailedCallback, ...]


@record(frozen=True)
class Summary:
    """A run that has ended, summarised.

    `failure` is that of the task that failed the job, `others` are further failures. `restarted` counts the
    restarts of tasks that were restarted on their own. `callbacks` has the tasks with failed callbacks,
    `usage` what tasks have used, `notes` what people were told about tasks while they ran, `at` where tasks
    were, by name, as far as that was said.
    """

    run: Run
    failure: Failure | None
    others: tuple[Failure, ...]
    restarted: Mapping[str, int]
    services: tuple[Service, ...]
    callbacks: tuple[Callbacks, ...]
    usage: tuple[tuple[RunTask, Usage], ...] = ()
    notes: tuple[tuple[RunTask, str], ...] = ()
    at: Mapping[str, str] = field(default_factory=dict)


def summarise(reader: RunReader, run: Run) -> Summary:
    """Summarise a run that has ended."""
    failures = {
        task.name: _failure(task, reader.exit_record(task))
        for task in run.tasks
        if task.state == "failed" or task.name == run.failed_task
    }
    first = failures.pop(run.failed_task, None) if run.failed_task is not None else None
    restarted = {task.name: task.retries - run.retries for task in run.tasks if task.retries > run.retries}
    return Summary(
        run=run,
        failure=first,
        others=tuple(failures.values()),
        restarted=restarted,
        services=tuple(_services(reader, run)),
        callbacks=tuple(_callbacks(reader, run)),
        usage=tuple(usage_of_tasks(reader, run)),
        **_told(reader, run),
    )


def _callbacks(reader: RunReader, run: Run) -> Iterator[Callbacks]:
    for task in run.tasks:
        if task.failed_callbacks:
            record = reader.exit_record(task)
            told = int(task.name == run.failed_task and _failed_by_callback(record))
            if count := task.failed_callbacks - told:
                yield Callbacks(task, count, failed_callbacks(record)[told:])


def _services(reader: RunReader, run: Run) -> Iterator[Service]:
    for task in run.tasks:
        progress = reader.progress(task)
        if progress is not None:
            yield from (Service(task, name, address) for name, address in progress.addresses.items())
            yield from (Service(task, name, None, why) for name, why in progress.failed_services.items())


def searched_for_notes(run: Run) -> list[RunTask]:
    """Return the tasks whose exit records are searched for notes."""
    return [each for each in run.tasks if each.over][:MOST_READ]


def _told(reader: RunReader, run: Run) -> dict[str, Any]:
    """Return the fields of `Summary` with what was told of tasks while they ran."""
    notes: list[tuple[RunTask, str]] = []
    at: dict[str, str] = {}
    for task in searched_for_notes(run):
        record = reader.exit_record(task)
        own = record.get("notes")
        notes += ((task, str(note)) for note in (own if isinstance(own, list) else ()))
        if place := _text(record, "at"):
            at[task.name] = place
    return {"notes": tuple(notes), "at": at}


def _failure(task: RunTask, record: Mapping[str, Any]) -> Failure:
    solutions = record.get("solution")
    return Failure(
        task,
        message=_text(record, "message"),
        phrase=_text(record, "phrase"),
        reason=_text(record, "reason"),
        quote=_quote(record),
        solutions=tuple(map(str, solutions)) if isinstance(solutions, list) else (),
        because_of_peer=record.get("becauseOfPeer") is True,
        beside_command=record.get("outcome") == "setup-failed" or _failed_by_callback(record),
    )


def _failed_by_callback(record: Mapping[str, Any]) -> bool:
    return record.get("phase") in EXIT_EVENTS


def _text(record: Mapping[str, Any], key: str) -> str:
    return str(record.get(key) or "")


def _quote(record: Mapping[str, Any]) -> str:
    """Return the whole log line that a rule matched; the match may be a part of it, or more than one line."""
    logs = record.get("errorLogs")
    for key, log in (("matchedUserLogString", "user"), ("matchedPlatformLogString", "platform")):
        if found := _text(record, key).strip().partition("\n")[0]:
            lines = str(logs.get(log)).splitlines() if isinstance(logs, Mapping) else []
            return next((text_of(line).strip() for line in reversed(lines) if found in line), found)
    return ""
