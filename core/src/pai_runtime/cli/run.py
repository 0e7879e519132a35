"""``pai-runtime run``: runs all tasks of a job, on this machine unless ``--on`` names a cluster."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pai_runtime.cli.arguments import add_code, add_job, add_on, add_policy, task_or_role, time_span
from pai_runtime.cli.beforehand import refused, short_secrets
from pai_runtime.cli.chosen_tasks import NoSuchTask, chosen_tasks
from pai_runtime.cli.overrides import add_overrides, given_overrides
from pai_runtime.cli.user import user_name
from pai_runtime.document.amounts import counted
from pai_runtime.document.problems import InvalidInput, Problems
from pai_runtime.engines.code import check_code, find_code
from pai_runtime.engines.local.engine import LocalRun
from pai_runtime.engines.local.environment import is_name
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.engines.local.request import IsolationMode, RunRequest
from pai_runtime.engines.local.run_folder import RunFolder
from pai_runtime.engines.local.storages import read_storages
from pai_runtime.engines.view import View
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.errors import CannotRun
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.summary import summarise
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.task.plan import Plan
from pai_runtime.terminal.output import report_problems, say
from pai_runtime.terminal.summary import summary_lines
from pai_runtime.terminal.view import choose_view
from pai_runtime.terminal.words import short_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_job(parser)
    add_overrides(parser)
    add_policy(parser)
    add_on(parser, "submit the job to the cluster of this engine profile (engines.yaml), and follow it")
    parser.add_argument(
        "--detach", action="store_true", help="with --on: print the name of the run, and do not follow it"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="directory of the run (default: .pai-runs/<job>-<n>); "
        "with --on, for what is read of it while it is followed",
    )
    parser.add_argument(
        "--share",
        action="store_true",
        help="let other users of this machine look into the directory of the run, as your umask says",
    )
    add_code(parser)
    parser.add_argument(
        "--task",
        type=task_or_role,
        action="append",
        default=[],
        metavar="ROLE[/INDEX]",
        help="run only this task, or the tasks of this role; repeatable",
    )
    parser.add_argument(
        "--timeout",
        type=time_span,
        metavar="T",
        help="stop the tasks after this time, such as 90, 90s, 15m or 2h",
    )
    parser.add_argument(
        "--strict-callbacks",
        action="store_true",
        help="let a callback that fails after the command fail its task, as extras.strictCallbacks does",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check the job, its plans and what it needs of this machine, or the cluster, without running it",
    )
    parser.add_argument(
        "--plain", action="store_true", help="print plain lines instead of the live view, even on a terminal"
    )
    parser.add_argument(
        "--isolation",
        choices=get_args(IsolationMode),
        help="let each task write to its own directory only (default: auto, if the kernel allows it)",
    )
    parser.add_argument(
        "--env",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME",
        help="pass this environment variable of yours to the tasks; repeatable",
    )
    parser.add_argument(
        "--storage",
        type=_storage,
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="use a local directory as this storage of the cluster; repeatable",
    )
    parser.add_argument(
        "--storage-config",
        type=Path,
        metavar="FILE",
        help="YAML file that maps names of storages to local directories; --storage takes precedence",
    )


def main(args: argparse.Namespace) -> int:
    """Return the job's exit status; 2 if it cannot be started; with ``--dry-run`` 0 if it could be."""
    if args.on is not None:
        from pai_runtime.cli.run_on_cluster import run_on_cluster  # noqa: PLC0415 - local runs need none

        return run_on_cluster(args)
    if args.detach:
        say("--detach is for runs on a cluster, which --on names; nothing was started")
        return CANNOT_RUN
    try:
        new = _New(args)
        try:
            plans = _plans(new, args)
            if args.dry_run:
                return _could_run(new, plans)
            secrets = secret_values(new.job.secrets)
            new.run.prepare(plans, secrets)
        except BaseException:
            new.discard()
            raise
    except (InvalidInput, CannotRun, NoSuchTask) as error:
        return refused(error, "nothing was started")
    for text in _beforehand(new, args.task, secrets):
        new.view.say(text)
    run, status = new.run.run()
    new.folder.unlock()
    for text in summary_lines(new.reader, summarise(new.reader, run)):
        new.view.say(text)
    return status


def _plans(new: "_New", args: argparse.Namespace) -> dict[TaskName, Plan]:
    """Return the plans of the selected tasks, after checking the job.

    Raises `InvalidInput`, `NoSuchTask` or `CannotRun`.
    """
    problems = Problems()
    overrides = given_overrides(args, strict_callbacks=args.strict_callbacks)
    files = JobFiles(args.job, args.secrets, overrides, new.definitions)
    planner = plan_job(files, new.host, new.place, problems)
    plans = planner.plans(*chosen_tasks(new.job, args.task))
    problems.check()
    report_problems(problems.in_order)
    new.check_code()
    return plans


def _could_run(new: "_New", plans: Mapping[TaskName, Plan]) -> int:
    """Do the remaining checks, and remove the directory of the run. Raises `CannotRun`."""
    new.run.check(plans)
    new.discard()
    count = counted(len(plans), "task", "tasks")
    say(f"{new.job.name} can be run, with {count}; nothing was started")
    return 0


class _New:
    """A new run, whose attributes are set once the job is loaded and placed."""

    job: Job
    folder: RunFolder
    reader: RunReader
    view: View
    run: LocalRun

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.host = given_host(args.policy)
        self.definitions = JobDefinitions(self.host, args.job)
        written = read_storages(args.storage_config) if args.storage_config else {}
        self._storages = {**written, **dict(args.storage)}

    def place(self, job: Job) -> Placement:
        """Create the directory of the run, and decide the placement of its tasks. Raises `CannotRun`."""
        args = self._args
        self.job = job
        self.folder = RunFolder(job, args.out, shared=args.share)
        self.reader = LocalRunReader(self.folder.path)
        self.view = choose_view(self.reader, plain=args.plain)
        left_out = (args.job, *filter(None, [args.secrets]), self.folder.path)
        self._code = find_code(job, args.code, left_out)
        wanted = RunRequest(
            folder=self.folder.path,
            user=user_name(),
            view=self.view,
            timeout=args.timeout,
            isolation=args.isolation or "auto",
            storages=self._storages,
            environment=tuple(args.env),
            code=self._code,
            definitions=self.definitions.resolved(),
        )
        self.run = LocalRun(job, wanted)
        return self.run.place()

    def check_code(self) -> None:
        """Check the code of the job, if any, and report its size. Raises `CannotRun`."""
        if self._code is not None:
            for note in check_code(self._code):
                self.view.say(f"note: {note}")

    def discard(self) -> None:
        """Remove what was created, if it is empty."""
        if "folder" in vars(self):
            self.folder.discard()


def _variable(text: str) -> str:
    """Check the name of a variable. An invalid one is not shown, since it may be a value."""
    if not is_name(text):
        raise argparse.ArgumentTypeError(
            "expected the name of a variable, such as LANG; its value is taken from your environment"
        )
    return text


def _storage(text: str) -> tuple[str, Path]:
    """Parse ``NAME=DIR``, the name of a storage and its directory."""
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise argparse.ArgumentTypeError(f"expected NAME=DIR, such as data=/mnt/data, found {text!r}")
    return name, Path(folder)


def _beforehand(new: _New, only: Sequence[tuple[str, int | None]], secrets: dict[str, str]) -> Iterator[str]:
    yield from short_secrets(secrets)
    if only:
        names = ", ".join(role if index is None else f"{role}/{index}" for role, index in only)
        yield f"note: only {names} will run; what waits for other tasks waits in vain"
        yield "note: completion policies count only the tasks that run"
    yield f"running {new.job.name} in {short_path(new.folder.path)}"
