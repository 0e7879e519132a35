"""``pai-runtime run``: all tasks of a job on this machine."""

import argparse
import getpass
import re
from pathlib import Path

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.common import given_host, load_checked
from pai_runtime.engines.local import LocalRun, not_given_here, say
from pai_runtime.engines.run_folder import CannotRun, RunFolder
from pai_runtime.engines.run_words import short_path
from pai_runtime.engines.summary import summary
from pai_runtime.engines.view import choose_view
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.build import Planner
from pai_runtime.problems import InvalidInput, print_problems
from pai_runtime.task.masking import SHORTEST

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def main(args: argparse.Namespace) -> int:
    """Exit status: the job's, or 2 if nothing was started."""
    try:
        timeout = _seconds(args.timeout) if args.timeout else None
        host = given_host(args)
        job, roles, warnings = load_checked(args, host)
        print_problems(warnings)
        folder = RunFolder(job, args.out)
        view = choose_view(folder.path, plain=args.plain)
        run = LocalRun(job, folder.path, view.say)
        try:
            plans = Planner(job, host, roles, run.place(getpass.getuser()), warnings).plans()
        except BaseException:
            folder.discard()
            raise
        secrets = secret_values(job.secrets)
        _say_before(job, folder.path, secrets)
        status = run.run(plans, secrets, timeout)
    except InvalidInput as error:
        print_problems(error.problems)
        say("nothing was started")
        return CANNOT_RUN
    except CannotRun as error:
        say(f"{error}; nothing was started")
        return CANNOT_RUN
    for line in summary(folder.path):
        view.say(line)
    return status


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise CannotRun(f"--timeout {text} is not a time, such as 90, 90s, 15m or 2h")
    return float(match[1]) * _UNITS[match[2]]


def _say_before(job: Job, folder: Path, secrets: dict[str, str]) -> None:
    for missing in not_given_here(job):
        say(f"not given on this machine: {missing}")
    for name in sorted(name for name, value in secrets.items() if 0 < len(value.encode()) < SHORTEST):
        say(f"the secret '{name}' is shorter than {SHORTEST} bytes; it cannot be hidden in logs")
    say(f"running {job.name} in {short_path(folder)}")
