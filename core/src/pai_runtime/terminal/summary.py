"""The text at the end of a run: how it ended, what failed, where and why, and where to read more."""

from collections.abc import Iterator, Sequence

from pai_document.amounts import counted
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import RunTask
from pai_runtime.runs.summary import NOT_RETRIED, Callbacks, Failure, Service, Summary, searched_for_notes
from pai_runtime.terminal.text import shown_line, some
from pai_runtime.terminal.times import elapsed
from pai_runtime.terminal.usage import usage_lines
from pai_runtime.terminal.words import command_for, counts, failed_service, lacking, noted, shown_name, tail
from pai_task.likely_line import GUESSED, SEARCHED_LINES, likely_line
from pai_task.outcome import how_it_failed
from pai_task.runtime_log import before_explanation

_LAST_LINES = 5
_SEARCHED_LINES = 40
_MOST_NAMED = 10


def summary_lines(reader: RunReader, summary: Summary) -> Iterator[str]:
    """Yield the lines about a run that has ended."""
    run = summary.run
    failed = sum(each.count for each in summary.callbacks)
    callbacks = f", but {counted(failed, 'callback', 'callbacks')} failed" if failed else ""
    took = elapsed(run.started, run.ended, run.started)
    where = f": {command_for(reader, 'logs')}" if reader.folder is None else f" are in {shown_name(reader)}"
    logs = f"{callbacks}; its logs{where}"
    if summary.failure is not None:
        yield from _failed(reader, summary, summary.failure)
    elif run.outcome == "succeeded":
        yield f"the job succeeded in {took}{logs}"
        yield from _failed_on_the_way(summary.others)
    elif run.outcome == "failed":
        yield f"the job failed after {took}{logs}"
        yield f"  {_line(run.note) or 'which of its tasks failed is not known (any more)'}"
        if len(run.tasks) > 1:
            yield f"  of {len(run.tasks)} tasks: {counts(each.state for each in run.tasks)}"
    else:
        yield f"the job was cancelled after {took}{logs}"
        if run.note:
            yield f"  {_line(run.note)}"
    if failed:
        yield from _failed_callbacks(reader, summary.callbacks, failed)
    yield from _of_tasks(reader, summary)
    if summary.failure is not None:
        yield f"  the run took {took}"


def _of_tasks(reader: RunReader, summary: Summary) -> Iterator[str]:
    """Yield what was notable of tasks, however the job ended."""
    yield from (f"  {line}" for line in usage_lines(summary.usage, on_cluster=bool(reader.on)))
    if summary.run.retries:
        yield f"  the job was restarted {_times(summary.run.retries)}"
    if summary.restarted:
        restarted = [f"{name} {_times(count)}" for name, count in summary.restarted.items()]
        yield f"  restarted: {some(restarted)}"
    yield from _notes(summary)
    yield from _services(reader, summary.services)


def _notes(summary: Summary) -> Iterator[str]:
    tasks: dict[str, list[str]] = {}
    searched, at = searched_for_notes(summary.run), dict(summary.at)
    for task, note in summary.notes:
        tasks.setdefault(note, []).append(task.name)
        at.setdefault(task.name, note)
    for note, named in list(tasks.items())[:_MOST_NAMED]:
        yield f"  {noted(note, named, lacking(searched, named), at)}"
    if len(tasks) > _MOST_NAMED:
        yield f"  {counted(len(tasks) - _MOST_NAMED, 'more note', 'more notes')}"


def _services(reader: RunReader, services: Sequence[Service]) -> Iterator[str]:
    if found := [f"{each.name} at {each.address} in {each.task.name}" for each in services if each.address]:
        yield f"  services during the run: {some(found)}"
    failed: dict[tuple[str, str], list[str]] = {}
    for each in services:
        if each.address is None:
            failed.setdefault((each.name, each.why), []).append(each.task.name)
    for (name, why), tasks in list(failed.items())[:_MOST_NAMED]:
        yield f"  {failed_service(reader, tasks, name, why)}"
    if len(failed) > _MOST_NAMED:
        yield f"  {counted(len(failed) - _MOST_NAMED, 'more service', 'more services')} failed"


def _failed(reader: RunReader, summary: Summary, failure: Failure) -> Iterator[str]:
    task, tasks = failure.task, summary.run.tasks
    yield f"the job failed: task {task.name}{_code(task, ', ')}{_phrase(failure)}"
    yield f"  {_line(failure.message) or 'it left no exit record'}"
    if failure.reason:
        yield f"  why: {_line(failure.reason)}"
    if failure.quote:
        yield f"  it said: {_line(failure.quote)}"
    if failure.solutions:
        yield "  what to do:"
        yield from (f"  - {_line(text)}" for text in failure.solutions)
    if task.not_retried:
        yield f"  {NOT_RETRIED}"
    if failure.beside_command:
        lines = tail(reader, task, "runtime", _SEARCHED_LINES)
        yield from (f"  | {line}" for line in before_explanation(lines)[-_LAST_LINES:])
    elif not failure.phrase:
        yield from _end_with_guess(tail(reader, task, "user", SEARCHED_LINES))
    yield f"  its log: {command_for(reader, 'logs', task.name, *['--runtime'] * failure.beside_command)}"
    if len(tasks) > 1:
        yield f"  of {len(tasks)} tasks: {counts(each.state for each in tasks)}"
    for what, others in (
        ("also failed", [each for each in summary.others if not each.because_of_peer]),
        (f"failed because {task.name} failed", [each for each in summary.others if each.because_of_peer]),
    ):
        if others:
            named = [f"{each.task.name}{_code(each.task, ' (', ')')}" for each in others]
            yield f"  {what}: {some(named)}"


def _end_with_guess(lines: Sequence[str]) -> Iterator[str]:
    """Yield the last of the lines of a log, with the one marked that may say why the command failed."""
    likely, end = likely_line(lines), max(0, len(lines) - _LAST_LINES)
    if likely is not None and likely < end:
        yield f"  ? {lines[likely]}"
        yield "  | …"
    yield from (
        f"  {'?' if number == likely else '|'} {line}" for number, line in enumerate(lines) if number >= end
    )
    if likely is not None:
        yield f"  {GUESSED}"


def _failed_on_the_way(failures: Sequence[Failure]) -> Iterator[str]:
    for failure in failures[:_MOST_NAMED]:
        why = failure.reason or failure.message or "it left no exit record"
        task = failure.task
        yield f"  {task.name} failed{_code(task, ', ')}{_phrase(failure)}: {_line(why)}"
    if len(failures) > _MOST_NAMED:
        yield f"  {len(failures) - _MOST_NAMED} more failed"


def _failed_callbacks(reader: RunReader, callbacks: Sequence[Callbacks], count: int) -> Iterator[str]:
    known = [(each.task, callback) for each in callbacks for callback in each.known]
    for task, callback in known[:_MOST_NAMED]:
        where = f"{callback.event} of '{_line(callback.use)}' ({_line(callback.source)})"
        yield f"  callback of {task.name}: {where} {how_it_failed(callback.exit_code, callback.cut_short)}"
    if count > len(known[:_MOST_NAMED]):
        yield f"  {counted(count - len(known[:_MOST_NAMED]), 'more callback', 'more callbacks')} failed"
    only = [callbacks[0].task.name] if len(callbacks) == 1 else []
    yield f"  log of callbacks: {command_for(reader, 'logs', *only, '--runtime')}"


def _code(task: RunTask, before: str, after: str = "") -> str:
    """Return a text with the exit code of a task; empty if it is unknown."""
    return f"{before}exit code {task.exit_code}{after}" if task.exit_code is not None else ""


def _phrase(failure: Failure) -> str:
    return f", {_line(failure.phrase)}" if failure.phrase else ""


def _line(text: str) -> str:
    return shown_line(text.encode("utf-8", "replace"))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
