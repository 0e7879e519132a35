"""``pai-runtime ps``: lists the runs in a directory, or the tasks of one run."""

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pai_document.printable import printable
from pai_runtime.cli import run_json
from pai_runtime.cli.arguments import add_json, add_on
from pai_runtime.cli.found_run import FoundRun
from pai_runtime.cli.given_run import NotThere, engine_for, find_run, not_readable
from pai_runtime.engines.interface import Engine
from pai_runtime.runs.names import RUNS, NoSuchRun
from pai_runtime.runs.provenance import settings
from pai_runtime.runs.reader import activity
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.runs.usage import usage_of_tasks
from pai_runtime.terminal.block import Block, can_redraw
from pai_runtime.terminal.live_frame import frame
from pai_runtime.terminal.output import columns, say, write_json, write_lines
from pai_runtime.terminal.table import table
from pai_runtime.terminal.task_table import task_table
from pai_runtime.terminal.text import ending, wrapped
from pai_runtime.terminal.times import elapsed, moment
from pai_runtime.terminal.usage import usage_lines
from pai_runtime.terminal.words import (
    kept,
    note_lines,
    retries,
    service_lines,
    shown_name,
    task_counts,
)
from pai_task.exit_codes import CANNOT_RUN
from pai_task.record import record

_TITLES = ("RUN", "JOB", "STATE", "STARTED", "ELAPSED", "RETRIES", "TASKS")
_WATCH_EVERY = 1.0
_OF_NAMES = 3
"""Maximum share of a terminal's width, as a divisor, that the names of runs take, which may be long paths."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_json(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="on a terminal, refresh every second; for one run, until it has ended",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="list all of your runs, in every directory of this machine and on the clusters of all profiles",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="runs, as in other commands, or a directory of runs (default: .pai-runs)",
    )
    add_on(parser, "show the cluster of this engine profile (engines.yaml), not a directory")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if there is no such run or directory, or no terminal to watch it on."""
    if args.all:
        return _all(args)
    try:
        shown = _shown(engine_for("ps", args.on), args.runs, args.on)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    if args.watch:
        return _watch(shown, as_json=args.json)
    found = shown.look()
    if args.json:
        write_json(_document(found))
    else:
        write_lines(_lines(shown, found, columns()))
    return 0


def _all(args: argparse.Namespace) -> int:
    if args.runs or args.on is not None or args.watch:
        say("--all cannot be combined with RUN, --on or --watch")
        return CANNOT_RUN
    from pai_runtime.cli.all_runs import all_runs  # noqa: PLC0415 - it reads the profiles of engines

    found, is_whole = all_runs()
    found.sort(key=_order)
    if args.json:
        write_json(_document(found))
    else:
        nowhere = ["no runs in any place that is known"]
        write_lines(_table(found, columns(), with_places=True) if found else nowhere)
    return 0 if is_whole else CANNOT_RUN


@record(frozen=True)
class _Shown:
    """The content shown: a function that looks up a run, or the runs in `where`."""

    where: str
    look: Callable[[], FoundRun | Sequence[FoundRun]]


def _shown(engine: Engine, names: Sequence[str], on: str | None) -> _Shown:
    if len(names) > 1:
        return _several(engine, names)
    name = names[0] if names else None
    if name is not None:
        try:
            part = engine.part(name)
        except NoSuchRun as error:
            raise NotThere(str(error)) from None
        if part is None:
            reader = find_run(engine, name)
            first = [reader.run()]
            if isinstance(first[0], Unreadable) and first[0].is_missing:
                raise not_readable(engine, reader, first[0])
            return _Shown(name, lambda: FoundRun(reader, first.pop() if first else reader.run()))
        engine = part
    return _Shown(
        (name and str(Path(name))) or on or str(RUNS),
        lambda: sorted((FoundRun(*each) for each in engine.runs()), key=_order),
    )


def _several(engine: Engine, names: Sequence[str]) -> _Shown:
    readers = {(reader := find_run(engine, name)).named: reader for name in names}
    for reader in readers.values():
        run = reader.run()
        if isinstance(run, Unreadable) and run.is_missing:
            raise not_readable(engine, reader, run)
    return _Shown(", ".join(names), lambda: [FoundRun(each, each.run()) for each in readers.values()])


def _document(found: FoundRun | Sequence[FoundRun]) -> Any:
    if isinstance(found, FoundRun):
        return run_json.details(found)
    return [run_json.summary(each) for each in found]


def _lines(shown: _Shown, found: FoundRun | Sequence[FoundRun], width: int | None) -> Iterable[str]:
    return _details(found, width) if isinstance(found, FoundRun) else _list(shown.where, found, width)


def _watch(shown: _Shown, *, as_json: bool) -> int:
    if as_json or not can_redraw():
        say("--watch needs a terminal, and cannot be combined with --json")
        return CANNOT_RUN
    block = Block()
    while True:
        found = shown.look()
        columns, rows = block.size()
        if isinstance(found, FoundRun):
            lines, is_over = _watched(found, (columns, rows))
        else:
            lines, is_over = _list(shown.where, found, columns - 1), False
        block.draw([], lines[: max(1, rows - 1)])
        if is_over:
            return 0
        time.sleep(_WATCH_EVERY)


def _watched(found: FoundRun, size: tuple[int, int]) -> tuple[list[str], bool]:
    """Return the lines of a run that fit a terminal, and whether it is over."""
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable):
        return _table([found], size[0] - 1), True
    colours = not os.environ.get("NO_COLOR")
    return frame(reader, run, activity(reader, run), size, colours=colours), run.over


def _list(where: str, runs: Sequence[FoundRun], width: int | None) -> list[str]:
    return _table(runs, width) if runs else [f"no runs in {where}"]


def _order(found: FoundRun) -> tuple[bool, float, str]:
    """Return a sort key: running runs first, then newest first."""
    started = found.run.started if isinstance(found.run, Run) else 0
    return found.state != "running", -started, found.reader.named


def _table(runs: Sequence[FoundRun], width: int | None, *, with_places: bool = False) -> list[str]:
    """Return a table of runs, with their users if any is known; `with_places`, with their clusters."""
    now = time.time()
    rows = [_TITLES, *(_row(found, now) for found in runs)]
    users = ["USER", *(found.run.user if isinstance(found.run, Run) else "" for found in runs)]
    if any(users[1:]):
        rows = [(row[0], user, *row[1:]) for row, user in zip(rows, users, strict=True)]
    places = ["ON", *(found.reader.on for found in runs)]
    if with_places and any(places[1:]):
        rows = [(row[0], place, *row[1:]) for row, place in zip(rows, places, strict=True)]
    changes = ["SET", *(_set(found) for found in runs)]
    if any(changes[1:]):
        rows = [(*row, change) for row, change in zip(rows, changes, strict=True)]
    if width is not None:
        rows = [(ending(printable(row[0]), max(width // _OF_NAMES, 1)), *row[1:]) for row in rows]
    return table(rows, width)


def _set(found: FoundRun) -> str:
    """Return what the command line of a run has set."""
    values = settings(found.reader.provenance(whole=False))
    return " ".join(f"{name}={value}" for name, value in values.items())


def _row(found: FoundRun, now: float) -> tuple[str, ...]:
    path, run = shown_name(found.reader), found.run
    if isinstance(run, Unreadable):
        return path, "", found.state, "", "", "", run.reason
    took = "" if run.lost else elapsed(run.started, run.ended, now)
    return path, run.job, run.word, moment(run.started, now), took, str(retries(run) or ""), task_counts(run)


def _details(found: FoundRun, width: int | None) -> Iterator[str]:
    """Yield the run, its tasks, why they wait, their services, and how to release held ones."""
    yield from _table([found], width)
    run, reader = found.run, found.reader
    if isinstance(run, Unreadable):
        return
    activities = activity(reader, run)
    yield ""
    yield from task_table(reader, run, run.tasks, activities, time.time(), width)
    below = [*note_lines(run.tasks), *usage_lines(usage_of_tasks(reader, run), on_cluster=bool(reader.on))]
    for task in run.tasks:
        below += service_lines(reader, task, activities[task.name])
    below += filter(None, (kept(reader, task, activities[task.name]) for task in run.tasks))
    for line in below:
        yield from [line] if width is None else wrapped(line, width)
