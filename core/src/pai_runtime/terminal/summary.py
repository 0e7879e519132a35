"""The summary at the end of a run: how it ended; what failed, where and why; and where to read more."""

from collections.abc import Iterator, Sequence

from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.summary import NOT_RETRIED, Failure, Summary
from pai_runtime.task.runtime_log import before_explanation
from pai_runtime.terminal.text import shown_line
from pai_runtime.terminal.words import counts, logs_command, short_path, tail

_LAST_LINES = 5
_SEARCHED_LINES = 40
_MOST_NAMED = 10


def summary_lines(reader: RunReader, summary: Summary) -> Iterator[str]:
    """The lines about a run that has ended."""
    run = summary.run
    if summary.failure is not None:
        yield from _failed(reader, summary, summary.failure)
    elif run.outcome == "succeeded":
        yield f"the job succeeded; its logs are in {short_path(reader.folder)}"
        yield from _failed_on_the_way(summary.others)
    else:
        yield f"the job was cancelled; its logs are in {short_path(reader.folder)}"
    if run.retries:
        yield f"  the job was restarted {_times(run.retries)}"
    if summary.restarted:
        restarted = [f"{name} {_times(count)}" for name, count in summary.restarted.items()]
        yield f"  restarted: {_some(restarted)}"
    if summary.services:
        found = [f"{each.name} at {each.address} in {each.task.name}" for each in summary.services]
        yield f"  services during the run: {_some(found)}"


def _failed(reader: RunReader, summary: Summary, failure: Failure) -> Iterator[str]:
    task, tasks = failure.task, summary.run.tasks
    yield f"the job failed: task {task.name}, exit code {task.exit_code}{_phrase(failure)}"
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
    if failure.in_setup:
        lines = tail(reader, task, "runtime", _SEARCHED_LINES)
        yield from (f"  | {line}" for line in before_explanation(lines)[-_LAST_LINES:])
    yield f"  its log: {logs_command(reader.folder, task.name, *['--runtime'] * failure.in_setup)}"
    if len(tasks) > 1:
        yield f"  of {len(tasks)} tasks: {counts(each.state for each in tasks)}"
    for what, others in (
        ("also failed", [each for each in summary.others if not each.because_of_peer]),
        (f"failed because {task.name} failed", [each for each in summary.others if each.because_of_peer]),
    ):
        if others:
            named = [f"{each.task.name} (exit code {each.task.exit_code})" for each in others]
            yield f"  {what}: {_some(named)}"


def _failed_on_the_way(failures: Sequence[Failure]) -> Iterator[str]:
    for failure in failures[:_MOST_NAMED]:
        why = failure.reason or failure.message or "it left no exit record"
        task = failure.task
        yield f"  {task.name} failed, exit code {task.exit_code}{_phrase(failure)}: {_line(why)}"
    if len(failures) > _MOST_NAMED:
        yield f"  {len(failures) - _MOST_NAMED} more failed"


def _phrase(failure: Failure) -> str:
    return f", {_line(failure.phrase)}" if failure.phrase else ""


def _line(text: str) -> str:
    return shown_line(text.encode("utf-8", "replace"))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _some(texts: list[str]) -> str:
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
