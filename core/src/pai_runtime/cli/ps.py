"""``pai-runtime ps``: the runs in a directory, or the tasks of one run."""

import argparse
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pai_runtime.cli import CANNOT_RUN, run_json
from pai_runtime.cli.arguments import add_json
from pai_runtime.cli.found_run import FoundRun, find_run
from pai_runtime.runs.names import RUNS, NoSuchRun, named_run
from pai_runtime.runs.reader import activity
from pai_runtime.runs.state import RUN, Run, Unreadable
from pai_runtime.task.layout import PLAN
from pai_runtime.terminal.block import Block, can_redraw
from pai_runtime.terminal.live_frame import frame
from pai_runtime.terminal.output import columns, say, write_json, write_lines
from pai_runtime.terminal.table import table
from pai_runtime.terminal.times import elapsed
from pai_runtime.terminal.words import (
    TASK_TITLES,
    kept,
    retries,
    shown_name,
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
    if args.json:
        write_json(_document(folder))
    else:
        write_lines(_lines(folder, columns()))
    return 0


def _is_run(folder: Path) -> bool:
    return os.path.exists(folder / RUN)  # noqa: PTH110 - pathlib's raises where permission is missing


def _document(folder: Path) -> Any:
    if _is_run(folder):
        return run_json.details(find_run(folder))
    return [run_json.summary(found) for found in _runs(folder)]


def _lines(folder: Path, width: int | None) -> Iterable[str]:
    return _details(find_run(folder), width) if _is_run(folder) else _list(folder, width)


def _watch(folder: Path, *, as_json: bool) -> int:
    if as_json or not can_redraw():
        say("--watch needs a terminal, and cannot be combined with --json")
        return CANNOT_RUN
    block = Block()
    is_one = _is_run(folder)
    while True:
        columns, rows = block.size()
        if is_one:
            lines, is_over = _watched(find_run(folder), (columns, rows))
        else:
            lines, is_over = _list(folder, columns - 1), False
        block.draw([], lines[: max(1, rows - 1)])
        if is_over:
            return 0
        time.sleep(_WATCH_EVERY)


def _watched(found: FoundRun, size: tuple[int, int]) -> tuple[list[str], bool]:
    """A run as it fits a terminal, and whether nothing more happens in it."""
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable):
        return table([_TITLES, _row(found, time.time())], size[0] - 1), True
    colours = not os.environ.get("NO_COLOR")
    return frame(reader, run, activity(reader, run), size, colours=colours), run.over


def _runs(folder: Path) -> list[FoundRun]:
    return sorted(map(find_run, _folders(folder)), key=_order)


def _list(folder: Path, width: int | None) -> list[str]:
    runs, now = _runs(folder), time.time()
    rows = [_TITLES, *(_row(found, now) for found in runs)]
    return table(rows, width) if runs else [f"no runs in {folder}"]


def _folders(folder: Path) -> Iterator[Path]:
    """The runs in a directory, including those that were abandoned before they started."""
    for path in folder.iterdir() if folder.is_dir() else ():
        is_folder_of_somebody = path.is_dir() and not os.access(path, os.R_OK | os.X_OK)
        if is_folder_of_somebody or (path / RUN).exists() or any(path.glob(f"*/*/{PLAN}")):
            yield path


def _order(found: FoundRun) -> tuple[bool, float, str]:
    """Those that are running first, then the latest first."""
    started = found.run.started if isinstance(found.run, Run) else 0
    return found.state != "running", -started, found.reader.named


def _row(found: FoundRun, now: float) -> tuple[str, ...]:
    path, run = shown_name(found.reader), found.run
    if isinstance(run, Unreadable):
        return path, "", found.state, "", "", run.reason
    took = "" if run.lost else elapsed(run.started, run.ended, now)
    return path, run.job, run.state, took, str(retries(run) or ""), task_counts(run)


def _details(found: FoundRun, width: int | None) -> Iterator[str]:
    """The run, its tasks, and how to end the waiting of those that are held."""
    now = time.time()
    yield from table([_TITLES, _row(found, now)], width)
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable):
        return
    activities = activity(reader, run)
    rows = [task_row(reader, run, task, activities[task.name], now) for task in run.tasks]
    yield ""
    yield from table([TASK_TITLES, *rows], width)
    yield from filter(None, (kept(reader, task, activities[task.name]) for task in run.tasks))
