"""``pai-runtime exec``: run a program in a task that is running or held, such as a shell."""

import argparse

from pai_runtime.cli.arguments import add_run_and_tasks, run_and_tasks
from pai_runtime.cli.given_run import NotThere, given_tasks
from pai_runtime.runs.errors import CannotEnter
from pai_runtime.terminal.output import say
from pai_task.exit_codes import CANNOT_RUN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run_and_tasks(parser, "a task, such as worker/0, or the only one of a role")
    parser.add_argument(
        "argv",
        nargs="*",
        metavar="-- COMMAND",
        help="a program and its arguments (default: a shell)",
    )
    parser.set_defaults(program=())  # see `Parser`


def main(args: argparse.Namespace) -> int:
    """Return the program's exit status; 127 if it does not exist, 126 if it is not executable, else 2."""
    try:
        given = given_tasks("exec", [*run_and_tasks(args), *args.argv], args.on)
        task = given.only()
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    try:
        return given.reader.exec(task, [*given.rest, *args.program])
    except CannotEnter as error:
        say(f"{task.name}: {error}")
        return error.status
