"""``pai-runtime run``: all tasks of a job on this machine."""

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pai_runtime.cli import CANNOT_RUN
from pai_runtime.cli.common import user_name
from pai_runtime.cli.policy import given_host
from pai_runtime.document import duration
from pai_runtime.document.problems import InvalidInput, Problems
from pai_runtime.engines.local.engine import LocalRun, RunOptions, not_given_here
from pai_runtime.engines.local.environment import is_name
from pai_runtime.engines.local.storages import read_storages
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.folder import CannotRun, RunFolder
from pai_runtime.task.plan import Plan
from pai_runtime.task.secret_forms import SHORTEST, is_too_short
from pai_runtime.terminal.output import report_problems, say
from pai_runtime.terminal.summary import summary
from pai_runtime.terminal.view import View, choose_view
from pai_runtime.terminal.words import short_path

_MUCH = 1_000_000_000
"""Bytes of plans from which on it is said how many there are."""


def main(args: argparse.Namespace) -> int:
    """Exit status: the job's, or 2 if nothing was started."""
    try:
        options = RunOptions(
            user=user_name(),
            timeout=_seconds(args.timeout) if args.timeout else None,
            isolation=args.isolation,
            storages=_storages(args),
            environment=tuple(map(_variable, args.env)),
        )
        host = given_host(args.policy)
        problems, here = Problems(), _Here(args, options)
        try:
            planner = plan_job(JobFiles(args.job, args.secrets), host, here.place, problems)
            plans = planner.plans()
            problems.check()
            report_problems(problems.in_order)
            _check_room(plans, here.folder.path)
            secrets = secret_values(here.job.secrets)
            here.run.prepare(plans, secrets)
        except BaseException:
            here.discard()
            raise
    except InvalidInput as error:
        report_problems(error.problems)
        say("nothing was started")
        return CANNOT_RUN
    except CannotRun as error:
        say(f"{error}; nothing was started")
        return CANNOT_RUN
    for text in _beforehand(here.job, here.folder.path, secrets):
        here.view.say(text)
    status = here.run.run()
    for text in summary(here.folder.path, here.run.as_run()):
        here.view.say(text)
    return status


class _Here:
    """The run on this machine; there is one once the job is known and has a place."""

    job: Job
    folder: RunFolder
    view: View
    run: LocalRun

    def __init__(self, args: argparse.Namespace, options: RunOptions) -> None:
        self._args = args
        self._options = options

    def place(self, job: Job) -> Placement:
        """Make the folder of the run and find ports for it; raises `CannotRun`."""
        self.job = job
        self.folder = RunFolder(job, self._args.out)
        self.view = choose_view(self.folder.path, plain=self._args.plain)
        self.run = LocalRun(job, self.folder.path, self._options, self.view)
        return self.run.place()

    def discard(self) -> None:
        """Take back what was made, if nothing is in it."""
        if "folder" in vars(self):
            self.folder.discard()


def _check_room(plans: Mapping[TaskName, Plan], folder: Path) -> None:
    """Raises `CannotRun` where the plans do not fit; each names all tasks, so they grow quadratically."""
    plan = next(iter(plans.values()))
    needed = len(json.dumps(plan.to_json()).encode()) * len(plans)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise CannotRun(
            f"the plans of {len(plans)} tasks take about {_gigabytes(needed)}, and {folder} has"
            f" {_gigabytes(free)} left; give --out a folder on a larger disk, or the job fewer tasks"
        )
    if needed > _MUCH:
        say(f"the plans of {len(plans)} tasks take about {_gigabytes(needed)} in {folder}")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _seconds(text: str) -> float:
    time = duration.seconds(text)
    if time is None:
        raise CannotRun(f"--timeout {text} is not a time, such as 90, 90s, 15m or 2h")
    return time


def _variable(name: str) -> str:
    if not is_name(name):
        # Not shown: it may be a value.
        raise CannotRun(
            "--env takes the name of a variable, such as LANG; its value is the one that it has here"
        )
    return name


def _storages(args: argparse.Namespace) -> dict[str, Path]:
    written = read_storages(args.storage_config) if args.storage_config else {}
    return {**written, **dict(map(_storage, args.storage))}


def _storage(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise CannotRun(f"--storage {text} is not NAME=DIR, such as data=/mnt/data")
    return name, Path(folder)


def _beforehand(job: Job, folder: Path, secrets: dict[str, str]) -> Iterator[str]:
    for missing in not_given_here(job):
        yield f"not given on this machine: {missing}"
    for name in sorted(name for name, value in secrets.items() if value and is_too_short(value)):
        yield f"the secret '{name}' is shorter than {SHORTEST} bytes; it cannot be hidden in logs"
    yield f"running {job.name} in {short_path(folder)}"
