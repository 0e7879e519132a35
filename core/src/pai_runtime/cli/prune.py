"""``pai-runtime prune``: removes old runs in ``.pai-runs``, or one's own old runs on a cluster."""

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pai_runtime.cli.arguments import add_on, age
from pai_runtime.cli.found_run import find_run
from pai_runtime.cli.given_run import NotThere
from pai_runtime.cli.removing import remove, remove_on_cluster
from pai_runtime.document.amounts import counted, size_text
from pai_runtime.runs.errors import CannotRemove
from pai_runtime.runs.names import has_traces, run_folders
from pai_runtime.runs.state import RUN, Run
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.terminal.output import can_ask, confirmed, say, write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--older-than",
        type=age,
        required=True,
        metavar="T",
        help="remove runs that ended longer ago than this, such as 12h or 7d",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print which runs would be removed, and remove none"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask on a terminal before runs are removed")
    add_on(parser, "your runs on the cluster of this engine profile (engines.yaml), not those in .pai-runs")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if a run cannot be removed; all others that ended before the time are."""
    moment = time.time() - args.older_than
    return _prune(args, moment) if args.on is None else _prune_on_cluster(args, moment)


def _prune(args: argparse.Namespace, moment: float) -> int:
    folders = sorted(_ended_before(moment))
    if not _is_wanted(args, list(map(str, folders))):
        return 0
    status, removed, total = 0, 0, 0
    for folder in folders:
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


def _prune_on_cluster(args: argparse.Namespace, moment: float) -> int:
    from pai_runtime.cli.given_cluster import given_cluster  # noqa: PLC0415 - as above
    from pai_runtime.cli.user import user_name  # noqa: PLC0415 - local runs need none

    user = user_name()
    readers = [
        reader
        for reader, run in given_cluster(args.on).runs()
        if isinstance(run, Run) and run.user == user and run.over and (run.ended or moment) < moment
    ]
    if not _is_wanted(args, [f"{reader.named} on {args.on}" for reader in readers]):
        return 0
    removed = sum(remove_on_cluster(reader, args.on) for reader in readers)
    write_lines([f"removed {counted(removed, 'run', 'runs')}"])
    return 0 if removed == len(readers) else CANNOT_RUN


def _is_wanted(args: argparse.Namespace, names: Sequence[str]) -> bool:
    """Return whether runs are to be removed; on a terminal, ask unless there is none or it was said."""
    asks = bool(names) and not args.yes and can_ask()
    if not args.dry_run and not asks:
        return True
    runs = counted(len(names), "run", "runs")
    write_lines([*(f"would remove {name}" for name in names), f"would remove {runs}"])
    return not args.dry_run and confirmed(f"Remove {runs}?")


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
