"""``pai-runtime ps``: the runs in a directory, or the tasks of one run."""

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.arguments import add_json
from pai_runtime.engines.engine import open_run
from pai_runtime.runs.failed_callbacks import failed_callbacks
from pai_runtime.runs.names import RUNS, NoSuchRun, named_run
from pai_runtime.runs.reader import RunReader, activity
from pai_runtime.runs.state import RUN, Run, RunTask, Unreadable
from pai_runtime.task.layout import PLAN
from pai_runtime.terminal.block import Block, can_redraw
from pai_runtime.terminal.live_frame import frame
from pai_runtime.terminal.output import columns, say, write_json, write_lines
from pai_runtime.terminal.table import table
from pai_runtime.terminal.times import elapsed
from pai_runtime.terminal.words import (
    TASK_TITLES,
    kept,
    last_line,
    retries,
    short_path,
    task_counts,
    task_row,
)

_TITLES = ("RUN", "JOB", "STATE", "ELAPSED", "RETRIES", "TASKS")
_WATCH_EVERY = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_json(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="on a terminal, refresh every second; for one run, until it has ended",
    )
    parser.add_argument(
        "runs",
        nargs="?",
        metavar="RUN",
        help="one run, as in other commands, or a directory of runs (default: .pai-runs)",
    )


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such directory, or no terminal to watch it on."""
    try:
        folder = RUNS if args.runs is None else named_run(args.runs)
    except NoSuchRun as error:
        say(f"{error}")
        return CANNOT_RUN
    if args.runs is not None and not os.access(folder, os.R_OK | os.X_OK):
        say(f"{folder} is not a readable directory")
        return CANNOT_RUN
    if args.watch:
        return _watch(folder, as_json=args.json)
    now = time.time()
    width = columns()
    if os.path.exists(folder / RUN):  # noqa: PTH110 - pathlib's raises where permission is missing
        found = _look(folder)
        document: Any = {**_summary(found), **_details(found)} if args.json else None
        lines: Iterable[str] = _details_text(found, now, width)
    else:
        runs = _runs(folder)
        document = [_summary(found) for found in runs]
        lines = _list_text(folder, runs, now, width)
    if args.json:
        write_json(document)
    else:
        write_lines(lines)
    return 0


def _watch(folder: Path, *, as_json: bool) -> int:
    if as_json or not can_redraw():
        say("--watch needs a terminal, and cannot be combined with --json")
        return CANNOT_RUN
    block = Block()
    is_one = os.path.exists(folder / RUN)  # noqa: PTH110 - as above
    while True:
        columns, rows = block.size()
        if is_one:
            lines, is_over = _watched(_look(folder), (columns, rows))
        else:
            lines, is_over = _list_text(folder, _runs(folder), time.time(), columns - 1), False
        block.draw([], lines[: max(1, rows - 1)])
        if is_over:
            return 0
        time.sleep(_WATCH_EVERY)


def _watched(found: "_Found", size: tuple[int, int]) -> tuple[list[str], bool]:
    """A run as it fits a terminal, and whether nothing more happens in it."""
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable) or reader is None:
        return table([_TITLES, _row(found, time.time())], size[0] - 1), True
    colours = not os.environ.get("NO_COLOR")
    return frame(reader, run, activity(reader, run), size, colours=colours), run.over


def _runs(folder: Path) -> list["_Found"]:
    return sorted(map(_look, _folders(folder)), key=_order)


def _list_text(folder: Path, runs: Sequence["_Found"], now: float, width: int | None) -> list[str]:
    rows = [_TITLES, *(_row(found, now) for found in runs)]
    return table(rows, width) if runs else [f"no runs in {folder}"]


def _folders(folder: Path) -> Iterator[Path]:
    """The runs in a directory, including those that were abandoned before they started."""
    for path in folder.iterdir() if folder.is_dir() else ():
        is_folder_of_somebody = path.is_dir() and not os.access(path, os.R_OK | os.X_OK)
        if is_folder_of_somebody or (path / RUN).exists() or any(path.glob(f"*/*/{PLAN}")):
            yield path


@dataclass(frozen=True)
class _Found:
    """The directory of a run, the run, and its reader; None if the run cannot be read."""

    folder: Path
    run: Run | Unreadable
    reader: RunReader | None = None

    @property
    def state(self) -> str:
        return self.run.state if isinstance(self.run, Run) else "unreadable"


def _look(folder: Path) -> _Found:
    reader = open_run(folder)
    return _Found(folder, reader) if isinstance(reader, Unreadable) else _Found(folder, reader.run(), reader)


def _order(found: _Found) -> tuple[bool, float, str]:
    """Those that are running first, then the latest first."""
    started = found.run.started if isinstance(found.run, Run) else 0
    return found.state != "running", -started, str(found.folder)


def _row(found: _Found, now: float) -> tuple[str, ...]:
    path, run = short_path(found.folder), found.run
    if isinstance(run, Unreadable):
        return path, "", found.state, "", "", run.reason
    took = "" if run.lost else elapsed(run.started, run.ended, now)
    return path, run.job, run.state, took, str(retries(run) or ""), task_counts(run)


def _details_text(found: _Found, now: float, width: int | None) -> Iterator[str]:
    """The run, its tasks, and how to end the waiting of those that are held."""
    yield from table([_TITLES, _row(found, now)], width)
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable) or reader is None:
        return
    activities = activity(reader, run)
    rows = [task_row(reader, run, task, activities[task.name], now) for task in run.tasks]
    yield ""
    yield from table([TASK_TITLES, *rows], width)
    yield from filter(None, (kept(task, activities[task.name]) for task in run.tasks))


def _summary(found: _Found) -> dict[str, Any]:
    """What both kinds of JSON say of a run; times in seconds since 1970."""
    run = found.run
    if isinstance(run, Unreadable):
        return {"folder": str(found.folder), "state": found.state, "reason": run.reason}
    return {
        "folder": str(found.folder),
        "job": run.job,
        "state": found.state,
        "started": run.started,
        "ended": run.ended,
        "retries": run.retries,
        "taskStates": Counter(run.state_of(task) for task in run.tasks),
        "failedCallbacks": sum(task.failed_callbacks for task in run.tasks),
    }


def _details(found: _Found) -> dict[str, Any]:
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable) or reader is None:
        return {}
    activities = activity(reader, run)
    tasks = []
    for task in run.tasks:
        progress = activities[task.name]
        tasks.append(
            {
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
                "lastLine": last_line(reader, task, progress),
                "failedCallbacks": task.failed_callbacks,
                "callbackFailures": _callback_failures(reader, task),
            }
        )
    return {"failedTask": run.failed_task, "tasks": tasks}


def _callback_failures(reader: RunReader, task: RunTask) -> list[dict[str, Any]]:
    """Those callbacks that failed after the command, as far as the exit record names them."""
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
