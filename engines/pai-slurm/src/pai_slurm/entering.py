"""The process of a step that runs a program in a task of the same node, by the supervisor of that task."""

import sys

from pai_runtime.engine import CannotEnter
from pai_runtime.engine.local import Folder, enter


def main() -> int:
    """Run the program that is named after the directory of the task, and return its exit status."""
    where, *argv = sys.argv[1:]
    try:
        with Folder.at(where) as folder:
            return enter(folder, argv)
    except CannotEnter as error:
        sys.stderr.write(f"pai-runtime: {error}\n")
        return error.status
