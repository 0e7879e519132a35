"""Arguments that several commands share, and the parsing of their values."""

import argparse
import re
from pathlib import Path

from pai_document.amounts import seconds

_JOB = "a job file (OpenPAI job protocol 2, YAML; or version 1, JSON)"
RUN_HELP = "a run: its name in .pai-runs, or on the cluster with --on; the path of its directory; or 'latest'"
ON_HELP = "the run is on the cluster of this engine profile (engines.yaml)"


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a job file and the values of its secrets."""
    parser.add_argument("job", type=Path, metavar="JOB", help=_JOB)
    _add_secrets(parser)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for one or more job files and the values of their secrets."""
    parser.add_argument("jobs", type=Path, nargs="+", metavar="JOB", help=_JOB)
    _add_secrets(parser)


def _add_secrets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secrets", type=Path, metavar="FILE", help="YAML file with values for the job's secrets"
    )


def add_policy(parser: argparse._ActionsContainer) -> None:
    """Add the option for a policy in addition to those in force."""
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="a plugin policy, enforced in addition to those of the machine and of $PAI_RUNTIME_POLICY",
    )


def add_downgrade(parser: argparse.ArgumentParser) -> None:
    """Add the option for entries of a policy that go back to a lower version."""
    parser.add_argument(
        "--allow-downgrade", action="store_true", help="also go back to a lower version than the policy has"
    )


def add_code(parser: argparse.ArgumentParser) -> None:
    """Add the option for a local directory of code."""
    parser.add_argument(
        "--code",
        type=Path,
        metavar="DIR",
        help="directory whose files each task starts with; takes precedence over extras.code of the job",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for JSON instead of text."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_debug(parser: argparse.ArgumentParser) -> None:
    """Add the option for the lines of plugins that led to their exceptions."""
    parser.add_argument(
        "--debug", action="store_true", help="show which lines of a plugin's code led to an exception"
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for an existing run."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    add_on(parser, ON_HELP)


def add_run_and_tasks(parser: argparse.ArgumentParser, tasks: str) -> None:
    """Add the arguments for an existing run, the latest if it is left out, and for tasks of it."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    parser.add_argument("task", nargs="?", metavar="ROLE[/INDEX]", help=tasks)
    add_on(parser, ON_HELP)


def run_and_tasks(args: argparse.Namespace) -> list[str]:
    """Return the words of the command line that name a run and tasks of it."""
    return [word for word in (args.run, args.task) if word is not None]


def add_on(parser: argparse.ArgumentParser, help_: str, *, required: bool = False) -> None:
    """Add the option for the cluster of an engine profile."""
    parser.add_argument("--on", metavar="NAME", required=required, help=help_)


def time_span(text: str) -> float:
    """Parse a duration, and return it in seconds."""
    span = seconds(text)
    if span is None:
        raise argparse.ArgumentTypeError(f"expected a time, such as 90, 90s, 15m, 2h or 7d, found {text!r}")
    return span


def age(text: str) -> float:
    """Parse a duration with a unit, and return it in seconds; a bare number may be meant in days."""
    if text.strip().replace(".", "", 1).isdigit():
        raise argparse.ArgumentTypeError(f"expected a time with a unit, such as 12h or 7d, found {text!r}")
    return time_span(text)


def task_or_role(text: str) -> tuple[str, int | None]:
    """Parse the name of a task, or of a role for all its tasks, with the index None."""
    return task_name(text) if "/" in text else (text, None)


def task_name(text: str) -> tuple[str, int]:
    """Parse the name of a task, such as ``worker/0``, and return role and index."""
    role, _, index = text.rpartition("/")
    if not role or not re.fullmatch("[0-9]{1,9}", index):
        raise argparse.ArgumentTypeError(f"expected ROLE/INDEX, such as worker/0, found {text!r}")
    return role, int(index)
