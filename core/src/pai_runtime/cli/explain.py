"""``pai-runtime explain``: the environment of a task, and where each variable comes from."""

import argparse
from collections.abc import Mapping
from typing import Any

from pai_runtime.cli.arguments import add_run, task_name
from pai_runtime.cli.given_run import NotThere, given_run, given_task
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import RunTask
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.terminal.output import say, write_lines
from pai_runtime.terminal.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run(parser)
    parser.add_argument("task", type=task_name, metavar="ROLE/INDEX", help="a task, such as worker/0")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if there is no such run or task."""
    try:
        reader, run = given_run("explain", args.run, args.on)
        rows, missing = _rows(reader, given_task(reader, run, args.task))
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    write_lines(table(rows) if rows else ())
    if missing:
        say(missing)
    return 0


def _rows(reader: RunReader, task: RunTask) -> tuple[list[tuple[str, str]], str]:
    """Return the rows of source and setting of each variable, and what is missing."""
    try:
        found = reader.variables(task)
        rows = [(str(each["source"]), _setting(name, each)) for name, each in found.known.items()]
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise NotThere(f"cannot read the variables of {task.name}: {where}{error.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise NotThere(f"the file with the variables of {task.name} in {reader.named} is invalid") from None
    return rows, found.missing


def _setting(name: str, variable: Mapping[str, Any]) -> str:
    """Return a variable with its value, or as inherited if its value is not kept."""
    return f"{name}={variable['value']}" if "value" in variable else f"{name} (inherited)"
