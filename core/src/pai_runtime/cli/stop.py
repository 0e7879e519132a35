"""``pai-runtime stop``: cancels runs, from any terminal."""

import argparse

from pai_runtime.cli.arguments import ON_HELP, RUN_HELP, add_on
from pai_runtime.cli.given_run import NotThere, given_run
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run
from pai_runtime.terminal.output import say
from pai_task.exit_codes import CANNOT_RUN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: latest); repeatable")
    add_on(parser, ON_HELP)


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, also for runs that have ended; 2 if one is none, or cannot be stopped.

    All others are stopped then, too.
    """
    status = 0
    found: dict[str, tuple[RunReader, Run]] = {}
    for name in args.runs or [LATEST]:  # all first: which one is the latest may change
        try:
            reader, run = given_run("stop", name, args.on)
        except NotThere as error:
            say(f"{error}")
            status = CANNOT_RUN
        else:
            found[reader.named] = reader, run
    return max([status, *(_stop(reader, run) for reader, run in found.values())])


def _stop(reader: RunReader, run: Run) -> int:
    if run.over:
        say(f"{reader.named} has ended already: {run.state}")
        return 0
    try:
        hint = reader.cancel()
    except (OSError, ValueError) as error:
        say(f"cannot stop {reader.named}: {error.strerror if isinstance(error, OSError) else error}")
        return CANNOT_RUN
    say("; ".join(filter(None, (f"stopping {reader.named}", hint))))
    return 0
