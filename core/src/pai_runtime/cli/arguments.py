"""Arguments that several commands share, and how their values are parsed."""

import argparse
import re
from pathlib import Path

from pai_runtime.document.amounts import seconds

_JOB = "a job file (OpenPAI job protocol 2, YAML; or version 1, JSON)"
RUN_HELP = "a run: its name in .pai-runs, or on the cluster with --on; the path of its directory; or 'latest'"
ON_HELP = "the run is on the cluster of this engine profile (engines.yaml)"


def add_job(parser: argparse.ArgumentParser) -> None:
    """The job file and the values of its secrets."""
    parser.add_argument("job", type=Path, metavar="JOB", help=_JOB)
    _add_secrets(parser)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """One or more job files, and the values of their secrets."""
    parser.add_argument("jobs", type=Path, nargs="+", metavar="JOB", help=_JOB)
    _add_secrets(parser)


def _add_secrets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secrets", type=Path, metavar="FILE", help="YAML file with values for the job's secrets"
    )


def add_policy(parser: argparse.ArgumentParser) -> None:
    """A policy beside those that are in force anyway."""
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="a plugin policy, enforced in addition to those of the machine and of $PAI_RUNTIME_POLICY",
    )


def add_code(parser: argparse.ArgumentParser) -> None:
    """Local code, beside what the job names."""
    parser.add_argument(
        "--code",
        type=Path,
        metavar="DIR",
        help="directory whose files each task starts with; takes precedence over extras.code of the job",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """JSON instead of text."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_run(parser: argparse.ArgumentParser) -> None:
    """A run that was started before."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    add_on(parser, ON_HELP)


def add_on(parser: argparse.ArgumentParser, help_: str, *, required: bool = False) -> None:
    """The cluster that is meant."""
    parser.add_argument("--on", metavar="NAME", required=required, help=help_)


def time_span(text: str) -> float:
    """A time, in seconds."""
    span = seconds(text)
    if span is None:
        raise argparse.ArgumentTypeError(f"expected a time, such as 90, 90s, 15m, 2h or 7d, found {text!r}")
    return span


def task_or_role(text: str) -> tuple[str, int | None]:
    """A task as for `task_name`, or all tasks of a role, whose index is then None."""
    return task_name(text) if "/" in text else (text, None)


def task_name(text: str) -> tuple[str, int]:
    """The role and the index of a task, as people write it."""
    role, _, index = text.rpartition("/")
    if not role or not re.fullmatch("[0-9]{1,9}", index):
        raise argparse.ArgumentTypeError(f"expected ROLE/INDEX, such as worker/0, found {text!r}")
    return role, int(index)
