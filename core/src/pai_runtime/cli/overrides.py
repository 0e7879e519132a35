"""Arguments that change a job without changing its file."""

import argparse
import re

from pai_runtime.job.overrides import Overrides


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add the options for values of parameters and instances of task roles."""
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="give a parameter of the job another value, such as lr=0.1 or model.depth=3; repeatable",
    )
    parser.add_argument(
        "--role-instances",
        type=_instances,
        action="append",
        default=[],
        metavar="ROLE=NUMBER",
        help="give a task role another number of instances, such as worker=2; repeatable",
    )


def given_overrides(args: argparse.Namespace, *, strict_callbacks: bool = False) -> Overrides:
    """Return the overrides of the command line; the last of several values for one thing takes precedence."""
    variables = getattr(args, "variables", {})
    return Overrides(dict(args.set), dict(args.role_instances), strict_callbacks, variables)


def setting(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, such as lr=0.1, found {text!r}")
    return name, value


def _instances(text: str) -> tuple[str, int]:
    role, _, number = text.partition("=")
    if not role or not re.fullmatch("[0-9]{1,9}", number):
        raise argparse.ArgumentTypeError(f"expected ROLE=NUMBER, such as worker=2, found {text!r}")
    return role, int(number)
