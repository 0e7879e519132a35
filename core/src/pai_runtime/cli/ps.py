"""``pai-runtime ps``: the runs in a folder, or the tasks of one run."""

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.arguments import add_json
from pai_runtime.document.printable import printable
from pai_runtime.runs.state import RUN, Run, RunTask, Unreadable, lost, read_activity, read_run
from pai_runtime.task.layout import PLAN
from pai_runtime.terminal.output import columns, say, write_json, write_lines
from pai_runtime.terminal.text import cut
from pai_runtime.terminal.words import (
    TASK_TITLES,
    counts,
    elapsed,
    kept,
    last_line,
    retries,
    short_path,
    table,
    task_row,
)

_TITLES = ("RUN", "JOB", "STATE", "ELAPSED", "RETRIES", "TASKS")
_DEFAULT = Path(".pai-runs")


@dataclass(frozen=True)
class _Found:
    """A folder of a run; `run` is what it says, and `lost`, whether its engine was killed."""

    folder: Path
    run: Run | Unreadable
    lost: bool

    @property
    def state(self) -> str:
        if isinstance(self.run, Unreadable):
            return "unreadable"
        return "lost" if self.lost else self.run.outcome or "running"

    def state_of(self, task: RunTask) -> str:
        """Nothing is known of a task that was left alone."""
        return "lost" if self.lost and not task.over else task.state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_json(parser)
    parser.add_argument(
        "runs", nargs="?", type=Path, metavar="DIR", help="a folder of runs, or of one (default: .pai-runs)"
    )


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such folder."""
    folder = args.runs or _DEFAULT
    if args.runs is not None and not os.access(folder, os.R_OK | os.X_OK):
        say(f"there is no folder {folder}, or it cannot be read")
        return CANNOT_RUN
    now = time.time()
    if os.path.exists(folder / RUN):  # noqa: PTH110 - pathlib's raises where permission is missing
        found = _look(folder)
        document: Any = {**_summary(found), **_details(found)} if args.json else None
        lines: Iterable[str] = _details_text(found, now)
    else:
        runs = sorted(map(_look, _folders(folder)), key=_order)
        document = [_summary(found) for found in runs]
        lines = table([_TITLES, *(_row(found, now) for found in runs)]) if runs else [f"no runs in {folder}"]
    if args.json:
        write_json(document)
    else:
        width = columns()
        write_lines(cut(printable(line), width) if width else line for line in lines)
    return 0


def _folders(folder: Path) -> Iterator[Path]:
    """The runs in a folder; also those that were left before they began, of which there are only plans."""
    for path in folder.iterdir() if folder.is_dir() else ():
        is_folder_of_somebody = path.is_dir() and not os.access(path, os.R_OK | os.X_OK)
        if is_folder_of_somebody or (path / RUN).exists() or any(path.glob(f"*/*/{PLAN}")):
            yield path


def _look(folder: Path) -> _Found:
    run = read_run(folder)
    return _Found(folder, run, isinstance(run, Run) and lost(folder, run))


def _order(found: _Found) -> tuple[bool, float, str]:
    """Those that are running first, then the latest first."""
    started = found.run.started if isinstance(found.run, Run) else 0
    return found.state != "running", -started, str(found.folder)


def _row(found: _Found, now: float) -> tuple[str, ...]:
    path, run = short_path(found.folder), found.run
    if isinstance(run, Unreadable):
        return path, "", found.state, "", "", run.reason
    took = "" if found.lost else elapsed(run.started, run.ended, now)
    states = counts(found.state_of(task) for task in run.tasks)
    return path, run.job, found.state, took, str(retries(run) or ""), states


def _details_text(found: _Found, now: float) -> Iterator[str]:
    """The run, its tasks, and how to end the waiting of those that are held."""
    yield from table([_TITLES, _row(found, now)])
    if isinstance(found.run, Unreadable):
        return
    doing = {} if found.lost else read_activity(found.folder, found.run)
    rows = []
    for task in found.run.tasks:
        row = list(task_row(found.folder, task, doing.get(task.name), now))
        if found.state_of(task) == "lost":
            row[TASK_TITLES.index("STATE")], row[TASK_TITLES.index("ELAPSED")] = "lost", ""
        rows.append(row)
    yield ""
    yield from table([TASK_TITLES, *rows])
    yield from filter(None, (kept(task, doing.get(task.name)) for task in found.run.tasks))


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
        "taskStates": Counter(found.state_of(task) for task in run.tasks),
    }


def _details(found: _Found) -> dict[str, Any]:
    if isinstance(found.run, Unreadable):
        return {}
    doing = {} if found.lost else read_activity(found.folder, found.run)
    tasks = []
    for task in found.run.tasks:
        progress = doing.get(task.name)
        tasks.append(
            {
                "role": task.role,
                "index": task.index,
                "state": found.state_of(task),
                "exitCode": task.exit_code,
                "retries": task.retries,
                "started": task.started,
                "ended": task.ended,
                "phase": progress.phase if progress else None,
                "use": progress.use if progress else None,
                "since": progress.since if progress else None,
                "heldUntil": progress.held_until if progress else None,
                "release": progress.release if progress else None,
                "lastLine": last_line(found.folder, task, progress),
            }
        )
    return {"failedTask": found.run.failed_task, "tasks": tasks}
