"""``pai-runtime prune``: removes old runs in ``.pai-runs``, or one's own old runs on a cluster."""

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from pai_runtime.cli.arguments import add_on, time_span
from pai_runtime.cli.found_run import find_run
from pai_runtime.cli.given_run import NotThere
from pai_runtime.cli.removing import remove, remove_on_cluster
from pai_runtime.document.amounts import counted, size_text
from pai_runtime.runs.errors import CannotRemove
from pai_runtime.runs.names import has_traces, run_folders
from pai_runtime.runs.state import RUN, Run, Unreadable
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.terminal.output import say, write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--older-than",
        type=time_span,
        required=True,
        metavar="T",
        help="remove runs that ended longer ago than this, such as 12h or 7d",
    )
    add_on(parser, "your runs on the cluster of this engine profile (engines.yaml), not those in .pai-runs")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if a run cannot be removed; all others that ended before the time are."""
    if args.on is not None:
        return _prune_on_cluster(args.on, time.time() - args.older_than)
    status, removed, total = 0, 0, 0
    for folder in sorted(_ended_before(time.time() - args.older_than)):
        try:
            size = remove(folder)
        except (CannotRemove, NotThere) as error:
            say(f"cannot remove {folder}: {error}")
            status = CANNOT_RUN
            continue
        write_lines([f"removed {folder} ({size_text(size)})"])
        removed, total = removed + 1, total + size
    write_lines([f"removed {counted(removed, 'run', 'runs')}, {size_text(total)}"])
    return status


def _prune_on_cluster(on: str, moment: float) -> int:
    from pai_runtime.cli.given_cluster import given_cluster  # noqa: PLC0415 - as above
    from pai_runtime.cli.user import user_name  # noqa: PLC0415 - local runs need none

    status, removed, user = 0, 0, user_name()
    for reader, run in given_cluster(on).runs():
        if isinstance(run, Unreadable) or run.user != user or not run.over or (run.ended or moment) >= moment:
            continue
        if remove_on_cluster(reader, on):
            removed += 1
        else:
            status = CANNOT_RUN
    write_lines([f"removed {counted(removed, 'run', 'runs')}"])
    return status


def _ended_before(moment: float) -> Iterator[Path]:
    """Yield the directories of runs that ended before a time; of abandoned ones, the last change counts."""
    for folder in run_folders():
        with contextlib.suppress(OSError):  # somebody else is removing it, or may alone look into it
            ended = _ended(folder)
            if ended is not None and ended < moment:
                yield folder


def _ended(folder: Path) -> float | None:
    """Return when the run in a directory ended, as far as known; None if it has not, or is not a run."""
    run = find_run(folder).run
    if isinstance(run, Run):
        if not run.over:
            return None
        return (folder / RUN).stat().st_mtime if run.ended is None else run.ended
    is_abandoned = not (folder / RUN).exists() and has_traces(folder)
    return folder.stat().st_mtime if is_abandoned else None
