"""``pai-runtime variables``: the environment of a task, and where each variable comes from."""

import argparse
from collections.abc import Mapping
from typing import Any

from pai_runtime.cli.arguments import add_run_and_tasks, run_and_tasks
from pai_runtime.cli.given_run import NotThere, given_tasks
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import RunTask
from pai_runtime.terminal.output import say, write_lines
from pai_runtime.terminal.table import table
from pai_task.exit_codes import CANNOT_RUN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run_and_tasks(parser, "a task, such as worker/0, or those of a role (default: all)")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 2 if there is no such run or task."""
    try:
        given = given_tasks("variables", run_and_tasks(args), args.on)
        for task in given.tasks:
            rows, missing = _rows(given.reader, task)
            write_lines([f"{task.name}:"] if len(given.tasks) > 1 else ())
            write_lines(table(rows) if rows else ())
            if missing:
                say(missing)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
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
