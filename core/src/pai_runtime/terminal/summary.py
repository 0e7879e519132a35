"""What is said at the end of a run: how it went; what failed, where and why; and where to read more."""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from pai_runtime.runs.state import Run, RunTask, exit_record_of, read_addresses
from pai_runtime.task.layout import LOGS, RUNTIME_LOG
from pai_runtime.task.outcome import EXPLAINED
from pai_runtime.terminal.text import shown_line
from pai_runtime.terminal.words import counts, short_path, tail

_LAST_LINES = 5
_SEARCHED_LINES = 40
_MOST_NAMED = 10


def summary(folder: Path, run: Run) -> Iterator[str]:
    """The lines about the run in `folder`, which has ended."""
    failed = next((task for task in run.tasks if task.name == run.failed_task), None)
    if failed is not None:
        yield from _failed(folder, run, failed)
    elif run.outcome == "succeeded":
        yield f"the job succeeded; its logs are in {short_path(folder)}"
        yield from _failed_on_the_way(folder, run)
    else:
        yield f"the job was cancelled; its logs are in {short_path(folder)}"
    yield from _begun_again(run)
    yield from _services(folder, run)


def _failed(folder: Path, run: Run, task: RunTask) -> Iterator[str]:
    record = exit_record_of(folder, task)
    yield f"the job failed: task {task.name}, exit code {task.exit_code}{_phrase(record)}"
    yield f"  {_line(record.get('message', 'it left no exit record'))}"
    yield from _why(record)
    setup_failed = record.get("outcome") == "setup-failed"
    if setup_failed:
        lines = tail(folder, task, RUNTIME_LOG, _SEARCHED_LINES)
        # What follows why it failed has been told, or is of callbacks.
        before = list(takewhile(lambda line: not line.startswith(EXPLAINED), lines))
        yield from (f"  | {line}" for line in before[-_LAST_LINES:])
    yield f"  logs: {short_path(folder / task.name / LOGS)}"
    yield f"  to read them: pai-runtime logs {short_path(folder)} {task.name}{' --runtime' * setup_failed}"
    if len(run.tasks) > 1:
        yield f"  of {len(run.tasks)} tasks: {counts(each.state for each in run.tasks)}"
    yield from _others(folder, run, task)


def _failed_on_the_way(folder: Path, run: Run) -> Iterator[str]:
    failed = [task for task in run.tasks if task.state == "failed"]
    for task in failed[:_MOST_NAMED]:
        record = exit_record_of(folder, task)
        why = record.get("reason") or record.get("message") or "it left no exit record"
        yield f"  {task.name} failed, exit code {task.exit_code}{_phrase(record)}: {_line(why)}"
    if len(failed) > _MOST_NAMED:
        yield f"  {len(failed) - _MOST_NAMED} more failed"


def _phrase(record: Mapping[str, Any]) -> str:
    return f", {_line(record['phrase'])}" if record.get("phrase") else ""


def _why(record: Mapping[str, Any]) -> Iterator[str]:
    if record.get("reason"):
        yield f"  why: {_line(record['reason'])}"
    if said := _said(record):
        yield f"  it said: {_line(said)}"
    solution = record.get("solution")
    for text in solution if isinstance(solution, list) else ():
        yield f"  what to do: {_line(text)}"


def _said(record: Mapping[str, Any]) -> str:
    """The line of the log by which a rule holds: the rule may have asked for a few words of it only."""
    found = str(record.get("matchedUserLogString") or record.get("matchedPlatformLogString") or "").strip()
    # A rule may have found the end of what stands before each text in runtime.log, too.
    first = found.partition("\n")[0].removeprefix("] ")
    logs = record.get("errorLogs")
    lines = str(logs.get("user")).splitlines() if isinstance(logs, Mapping) else []
    return next((line.strip() for line in reversed(lines) if first in line), first) if first else ""


def _others(folder: Path, run: Run, first: RunTask) -> Iterator[str]:
    others = [each for each in run.tasks if each.state == "failed" and each != first]
    fell = [each for each in others if exit_record_of(folder, each).get("becauseOfPeer")]
    for what, tasks in (
        ("also failed", [each for each in others if each not in fell]),
        (f"fell because of {first.name}", fell),
    ):
        if tasks:
            yield f"  {what}: {_some([f'{each.name} (exit code {each.exit_code})' for each in tasks])}"


def _line(value: object) -> str:
    return shown_line(str(value).encode())


def _begun_again(run: Run) -> Iterator[str]:
    if run.retries:
        yield f"  the job was begun again {_times(run.retries)}"
    tasks = {task.name: task.retries - run.retries for task in run.tasks if task.retries > run.retries}
    if tasks:
        yield f"  begun again: {_some([f'{name} {_times(number)}' for name, number in tasks.items()])}"


def _services(folder: Path, run: Run) -> Iterator[str]:
    found = [
        f"{name} at {address} in {task.name}"
        for task in run.tasks
        for name, address in read_addresses(folder, task).items()
    ]
    if found:
        yield f"  while it ran there was: {_some(found)}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _some(texts: list[str]) -> str:
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
