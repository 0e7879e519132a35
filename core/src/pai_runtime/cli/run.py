"""``pai-runtime run``: all tasks of a job on this machine."""

import argparse
import getpass
import sys
from pathlib import Path

from pai_runtime import duration
from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.common import given_host, load_checked
from pai_runtime.document import Document
from pai_runtime.engines.local import LocalRun, RunOptions, not_given_here
from pai_runtime.engines.run_folder import CannotRun, RunFolder
from pai_runtime.engines.run_state import Run
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.build import Planner
from pai_runtime.problems import InvalidInput, print_problems
from pai_runtime.task.masking import SHORTEST

_LAST_LINES = 5


def main(args: argparse.Namespace) -> int:
    """Exit status: the job's, or 2 if nothing was started."""
    try:
        options = RunOptions(
            user=getpass.getuser(),
            timeout=_seconds(args.timeout) if args.timeout else None,
            isolation=args.isolation,
            storages=dict(map(_storage, args.storage)),
        )
        host = given_host(args)
        job, roles, warnings = load_checked(args, host)
        print_problems(warnings)
        folder = RunFolder(job, args.out)
        run = LocalRun(job, folder.path, options, _View())
        secrets = secret_values(job.secrets)
        try:
            plans = Planner(job, host, roles, run.place(), warnings).plans()
            run.prepare(plans, secrets)
        except BaseException:
            folder.discard()
            raise
        _say_before(job, folder.path, secrets)
        status = run.run()
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
    time = duration.seconds(text)
    if time is None:
        raise CannotRun(f"--timeout {text} is not a time, such as 90, 90s, 15m or 2h")
    return time


def _storage(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise CannotRun(f"--storage {text} is not NAME=DIR, such as data=/mnt/data")
    return name, Path(folder)


class _View:
    def say(self, text: str) -> None:
        say(text)

    def show(self, run: Run) -> None:
        pass


def say(text: str) -> None:
    sys.stderr.write(f"pai-runtime: {text}\n")
    sys.stderr.flush()


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
    task = run.failed_task.folder
    say(f"the job failed: task {run.failed_task.label}, exit code {status}")
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
