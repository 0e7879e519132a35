"""``pai-runtime bundle``: the runtime and the plugins in one directory that runs in any image."""

import argparse
from pathlib import Path

from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.make import make_bundle
from pai_pod.errors import reason
from pai_runtime.command.arguments import add_policy
from pai_runtime.command.jobs import given_host
from pai_runtime.command.output import say
from pai_runtime.plugin import Output
from pai_task.exit_codes import CANNOT_RUN
from pai_task.paths import BUNDLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help=f"a new or empty directory; what is made in it runs from {BUNDLE}",
    )
    add_policy(parser)


def main(args: argparse.Namespace, _output: Output) -> int:
    """Return exit status 0, or 2 if the bundle cannot be made."""
    try:
        make_bundle(args.folder, given_host(args.policy), say)
    except CannotBundle as error:
        say(f"{error}")
    except OSError as error:
        say(f"cannot continue: {reason(error)}")
    else:
        return 0
    return CANNOT_RUN
