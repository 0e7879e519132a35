"""``pai-runtime explain``: the environment of a task, and who set each variable."""

import argparse
import json
import sys

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.common import say


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 2 if there is no such task in the folder."""
    path = args.run / args.task / "variables.json"
    try:
        variables: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        say(f"{path} cannot be read: {error.strerror}; is {args.run} the folder of a run?")
        return CANNOT_RUN
    width = max((len(variable["source"]) for variable in variables.values()), default=0)
    for name, variable in variables.items():
        value = variable["value"]
        shown = value if value.isprintable() else json.dumps(value, ensure_ascii=False)
        sys.stdout.write(f"{variable['source']:{width}}  {name}={shown}\n")
    return 0
