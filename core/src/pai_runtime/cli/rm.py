"""``pai-runtime rm``: removes runs that have ended, with all that they have left."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pai_runtime.cli.arguments import RUN_HELP, add_on
from pai_runtime.cli.given_run import NotThere, reader_on_cluster
from pai_runtime.cli.removing import remove, remove_on_cluster
from pai_runtime.document.amounts import size_text
from pai_runtime.runs.errors import CannotRemove
from pai_runtime.runs.names import LATEST, NoSuchRun, named_run
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.terminal.output import say, write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_on(parser, "the runs are on the cluster of this engine profile (engines.yaml)")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if one is not a run, has not ended, or cannot be removed; all others are."""
    if args.on is not None:
        return _remove_on_cluster(args.runs, args.on)
    status = 0
    folders: dict[Path, str] = {}  # of all first: what is 'latest' changes with each that is removed
    for name in args.runs:
        try:
            folder = named_run(name)
        except NoSuchRun as error:
            say(f"{error}")
            status = CANNOT_RUN
        else:
            folders[folder] = folder.name if name == LATEST else name
    for folder, name in folders.items():
        try:
            write_lines([f"removed {name} ({size_text(remove(folder))})"])
        except NotThere as error:
            say(f"{error}")
            status = CANNOT_RUN
        except CannotRemove as error:
            say(f"cannot remove {name}: {error}")
            status = CANNOT_RUN
    return status


def _remove_on_cluster(names: Sequence[str], on: str) -> int:
    status, readers = 0, {}
    for name in names:  # all first, as above
        try:
            reader = reader_on_cluster(name, on)
        except NotThere as error:
            say(f"{error}")
            status = CANNOT_RUN
        else:
            readers[reader.named] = reader
    for reader in readers.values():
        if not remove_on_cluster(reader, on):
            status = CANNOT_RUN
    return status
