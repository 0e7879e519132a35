"""``pai-runtime run``: all tasks of a job on this machine."""

import argparse
import getpass
import re
from pathlib import Path

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.common import given_host, load_checked
from pai_runtime.document import Document
from pai_runtime.engines.local import LocalRun, not_given_here, say
from pai_runtime.engines.run_folder import CannotRun, RunFolder
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.build import Planner
from pai_runtime.problems import InvalidInput, print_problems
from pai_runtime.task.masking import SHORTEST

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LAST_LINES = 5


def main(args: argparse.Namespace) -> int:
    """Exit status: the job's, or 2 if nothing was started."""
    try:
        timeout = _seconds(args.timeout) if args.timeout else None
        host = given_host(args)
        job, roles, warnings = load_checked(args, host)
        print_problems(warnings)
        folder = RunFolder(job, args.out)
        run = LocalRun(job, folder.path, say)
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
    _say_after(run, folder.path, status)
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
    say(f"running {job.name} in {_short(folder)}")


def _say_after(run: LocalRun, folder: Path, status: int) -> None:
    if run.failed_task is None:
        say("the job was cancelled" if status else f"the job succeeded; its logs are in {_short(folder)}")
        return
    task = run.task_folder(run.failed_task)
    say(f"the job failed: task {'/'.join(map(str, run.failed_task))}, exit code {status}")
    try:
        record = Document.read(task / "exit.yaml").root.data
    except InvalidInput:
        record = {"message": "it left no exit record"}
    say(f"  {record.get('message')}")
    if record.get("outcome") == "setup-failed":
        _say_tail(task / "logs" / "runtime.log")
    say(f"  logs: {_short(task / 'logs')}")


def _say_tail(log: Path) -> None:
    try:
        lines = log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return
    for line in lines:
        say(f"  | {line.partition('[openpai-runtime] ')[2]}")


def _short(path: Path) -> str:
    """Relative to where the person is, where it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
