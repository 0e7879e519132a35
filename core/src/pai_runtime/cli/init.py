"""``pai-runtime init``: what the init container of a pod runs."""

import argparse
import os

from pai_runtime.cli.policy import given_host
from pai_runtime.pod.init import run_init


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: all that it needs to know is in the environment and in files, as the platform gives it."""
    parser.description = "Prepare a pod's volume for its task; see docs/runtime-image.md."


def main(_args: argparse.Namespace) -> int:
    """Exit status: the exit code of the init container."""
    return run_init(os.environ, lambda: given_host(None))
