"""``pai-runtime logs``: the logs of a run's tasks."""

import argparse
import re
import resource
import time
from collections.abc import Sequence
from datetime import datetime

from pai_document.amounts import seconds
from pai_runtime.cli.arguments import add_run_and_tasks, run_and_tasks
from pai_runtime.cli.given_run import NotThere, given_tasks
from pai_runtime.runs.state import RunTask
from pai_runtime.terminal.output import say
from pai_runtime.terminal.task_logs import CannotReadLog, WantedLogs, print_logs
from pai_runtime.terminal.words import note_lines
from pai_task.exit_codes import CANNOT_RUN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run_and_tasks(parser, "one task, such as worker/0, or those of a role (default: all)")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep printing new output until the tasks have ended"
    )
    parser.add_argument(
        "--runtime", action="store_true", help="show the runtime's own log, with the output of callbacks"
    )
    parser.add_argument("--tail", type=_number, metavar="N", help="show only the last N lines of each task")
    parser.add_argument(
        "--since",
        type=_moment,
        metavar="TIME",
        help="show only what was written since this time: a time span such as 10m, or a time such as "
        "2026-01-31T12:00:00Z",
    )
    parser.add_argument(
        "--timestamps",
        action="store_true",
        help="precede each line by the time at which it was written (UTC)",
    )
    parser.add_argument(
        "--attempt",
        type=_number,
        metavar="N",
        help="show this attempt of the tasks, counted from 0 (default: the last one)",
    )


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if there is no such run, task or attempt, or a log cannot be read."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a job may have many tasks
    try:
        given = given_tasks("logs", run_and_tasks(args), args.on)
        reader, tasks = given.reader, given.tasks
        wanted = WantedLogs(
            kind="runtime" if args.runtime else "user",
            attempt=args.attempt,
            tail=args.tail,
            since=args.since,
            prefixed=len(tasks) > 1,
            timestamps=args.timestamps,
            follow=args.follow,
        )
        for text in note_lines(task for task in tasks if task.over):
            say(text)
        print_logs(reader, _with_attempt(tasks, args.attempt), wanted)
    except (NotThere, CannotReadLog) as error:
        say(f"{error}")
        return CANNOT_RUN
    return 0


def _with_attempt(tasks: Sequence[RunTask], attempt: int | None) -> Sequence[RunTask]:
    """Return the tasks that have had an attempt of this number. Raises `NotThere` if none has."""
    last = max((task.retries for task in tasks), default=0)
    if attempt is not None and attempt > last:
        raise NotThere(f"there is no attempt {attempt} yet; the last one is attempt {last}")
    return [task for task in tasks if attempt is None or attempt <= task.retries]


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}")
    return int(text)


def _moment(text: str) -> float:
    """Parse a time, or a duration before now, and return seconds since 1970; local time without a zone."""
    span = seconds(text)
    if span is not None:
        return time.time() - span
    try:
        return datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text)).timestamp()
    except (ValueError, OverflowError):
        expected = "a time span such as 10m, or a time such as 2026-01-31T12:00:00Z"
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}") from None
