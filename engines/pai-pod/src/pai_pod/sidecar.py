"""The program of a pod's sidecar, which prints the runtime's log of the task; see `pai_pod.runtime_log`."""

import argparse
import os

from pai_pod.directories import BadDirectory
from pai_pod.runtime_log import print_runtime_log
from pai_runtime.terminal.output import say
from pai_task.exit_codes import CANNOT_RUN


def main(_args: argparse.Namespace) -> int:
    """Print the log until a signal ends this; return 0, or 2 if that is not possible."""
    try:
        return print_runtime_log(os.environ)
    except BadDirectory as error:
        say(f"{error}")
        return CANNOT_RUN
