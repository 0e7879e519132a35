"""``pai-runtime init``: the program of a pod's init container, and of the sidecar that prints its log."""

import argparse
import os

# The sidecar needs nothing of what init does.
# ruff: noqa: PLC0415


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; everything else comes from the environment and from files."""
    parser.description = "Prepare a pod's volume for its task; see docs/runtime-image.md."
    parser.add_argument(
        "--print-logs",
        action="store_true",
        help="instead, print the runtime's log of the task that is prepared, until a signal ends this",
    )


def main(args: argparse.Namespace) -> int:
    """Return the exit code of the init container; with --print-logs 0, or 2 if that is not possible."""
    if args.print_logs:
        return _print_logs()
    from pai_runtime.host.policies_in_force import given_host
    from pai_runtime.pod.init import run_init

    return run_init(os.environ, lambda: given_host(None))


def _print_logs() -> int:
    from pai_runtime.pod.directories import BadDirectory
    from pai_runtime.pod.runtime_log import print_runtime_log
    from pai_runtime.task.exit_codes import CANNOT_RUN
    from pai_runtime.terminal.output import say

    try:
        return print_runtime_log(os.environ)
    except BadDirectory as error:
        say(f"{error}")
        return CANNOT_RUN
