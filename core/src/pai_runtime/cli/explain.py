"""``pai-runtime explain``: the environment of a task, and who set each variable."""

import argparse
import json

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.arguments import add_run, task_name
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import VARIABLES
from pai_runtime.terminal.output import say, write_lines

_MOST_BYTES = 64 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_run(parser)
    parser.add_argument("task", type=task_name, metavar="ROLE/INDEX", help="one of its tasks")


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such task in the folder."""
    task = "{}/{}".format(*args.task)
    path = args.run / task / VARIABLES
    try:
        with Folder.at(args.run) as run:
            variables = json.loads(run.read(f"{task}/{VARIABLES}", _MOST_BYTES))
        rows = [(str(each["source"]), _setting(name, each)) for name, each in variables.items()]
    except OSError as error:
        say(f"{path} cannot be read: {error.strerror}; is {task} a task of the run in {args.run}?")
        return CANNOT_RUN
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        say(f"{path} cannot be understood: it does not say who set which variable")
        return CANNOT_RUN
    width = max((len(source) for source, _ in rows), default=0)
    write_lines(f"{source:{width}}  {setting}" for source, setting in rows)
    return 0


def _setting(name: str, variable: dict[str, str]) -> str:
    """With its value, unless that comes from outside and is not kept."""
    return f"{name}={variable['value']}" if "value" in variable else f"{name} (from outside)"
