"""``pai-runtime prune``: removes old runs in ``.pai-runs``, or one's own old runs on a cluster."""

import argparse
import time
from collections.abc import Iterator, Sequence

from pai_document.amounts import counted, size_text
from pai_runtime.cli.arguments import add_on, age
from pai_runtime.cli.given_run import NotThere, engine_for
from pai_runtime.cli.rm import removed
from pai_runtime.cli.user import user_name
from pai_runtime.engines.interface import Engine
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Unreadable
from pai_runtime.terminal.output import can_ask, confirmed, say, write_lines
from pai_runtime.terminal.words import full_name
from pai_task.exit_codes import CANNOT_RUN


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
    try:
        engine = engine_for("prune", args.on)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    readers = sorted(_ended_before(engine, time.time() - args.older_than), key=lambda each: each.named)
    if not _is_wanted(args, list(map(full_name, readers))):
        return 0
    sizes = [size for reader in readers if (size := removed(reader, reader.named)) is not None]
    total = f", {size_text(sum(sizes))}" if any(sizes) else ""
    write_lines([f"removed {counted(len(sizes), 'run', 'runs')}{total}"])
    return 0 if len(sizes) == len(readers) else CANNOT_RUN


def _is_wanted(args: argparse.Namespace, names: Sequence[str]) -> bool:
    """Return whether runs are to be removed; on a terminal, ask unless there is none or it was said."""
    asks = bool(names) and not args.yes and can_ask()
    if not args.dry_run and not asks:
        return True
    runs = counted(len(names), "run", "runs")
    write_lines([*(f"would remove {name}" for name in names), f"would remove {runs}"])
    return not args.dry_run and confirmed(f"Remove {runs}?")


def _ended_before(engine: Engine, moment: float) -> Iterator[RunReader]:
    """Yield the user's runs that ended before a time."""
    user = engine.user(user_name())
    for reader, run in engine.runs():
        is_own = isinstance(run, Unreadable) or run.user in ("", user)
        ended = reader.ended(run) if is_own else None
        if ended is not None and ended < moment:
            yield reader
