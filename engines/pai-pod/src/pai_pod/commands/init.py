"""``pai-runtime init``: the program of a pod's init container, and of the sidecar that prints its log."""

import argparse
import os

from pai_pod import sidecar
from pai_pod.init import run_init
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.plugin import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; everything else comes from the environment and from files."""
    parser.add_argument(
        "--print-logs",
        action="store_true",
        help="instead, print the runtime's log of the task that is prepared, until a signal ends this",
    )


def main(args: argparse.Namespace, _output: Output) -> int:
    """Return the exit code of the init container; with --print-logs 0, or 2 if that is not possible."""
    if args.print_logs:
        return sidecar.main(args)
    return run_init(os.environ, lambda: given_host(None))
