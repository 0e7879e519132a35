"""``pai-runtime rm``: removes runs that have ended, with all that they have left."""

import argparse

from pai_document.amounts import size_text
from pai_runtime.cli.arguments import RUN_HELP, add_on
from pai_runtime.cli.given_run import NotThere, engine_for, find_run
from pai_runtime.runs.errors import CannotRemove, ClusterError
from pai_runtime.runs.names import LATEST, NoSuchRun
from pai_runtime.runs.reader import RunReader
from pai_runtime.terminal.output import say, write_lines
from pai_task.exit_codes import CANNOT_RUN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_on(parser, "the runs are on the cluster of this engine profile (engines.yaml)")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if one is not a run, has not ended, or cannot be removed; all others are."""
    status = 0
    try:
        engine = engine_for("rm", args.on)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    readers: dict[str, tuple[RunReader, str]] = {}
    for name in args.runs:  # all first: what is 'latest' changes with each that is removed
        try:
            reader = find_run(engine, name)
        except NotThere as error:
            say(f"{error}")
            status = CANNOT_RUN
        else:
            shown = reader.folder.name if reader.folder and name == LATEST else name
            readers[reader.named] = reader, reader.named if reader.on else shown
    for reader, name in readers.values():
        if removed(reader, name) is None:
            status = CANNOT_RUN
    return status


def removed(reader: RunReader, name: str) -> int | None:
    """Remove a run, and report that; return its size, 0 if unknown, or None if it cannot be removed."""
    try:
        size = reader.remove()
    except NoSuchRun as error:
        say(f"{error}")
    except (CannotRemove, ClusterError) as error:
        say(f"cannot remove {name}: {error}")
    else:
        where = f" on {reader.on}" if reader.on else ""
        write_lines([f"removed {name}{where}" + (f" ({size_text(size)})" if size is not None else "")])
        return size or 0
    return None
