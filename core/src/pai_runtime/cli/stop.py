"""``pai-runtime stop``: cancels a run, from any terminal."""

import argparse

from pai_runtime.cli.arguments import add_run
from pai_runtime.cli.given_run import NotThere, given_run
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.terminal.output import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run(parser)


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, also for a run that has ended; 2 if there is none, or it cannot be stopped."""
    try:
        reader, run = given_run("stop", args.run, args.on)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
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
