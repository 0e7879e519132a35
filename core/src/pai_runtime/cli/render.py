"""``pai-runtime render``: shows a job as objects of a cluster, for ``kubectl apply`` and GitOps."""

import argparse
import os
from pathlib import Path

from pai_document.problems import InvalidInput, Problems
from pai_runtime.cli.arguments import add_code, add_job, add_on, add_policy
from pai_runtime.cli.engine_job import EngineJob
from pai_runtime.cli.given_run import given_engine, refusal
from pai_runtime.cli.overrides import add_overrides
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.runs.errors import CannotRun
from pai_runtime.terminal.output import report_problems, say, write_lines
from pai_task.exit_codes import CANNOT_RUN, INVALID


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_job(parser)
    add_overrides(parser)
    add_policy(parser)
    add_on(parser, "the engine profile (engines.yaml) of the cluster, which is not asked", required=True)
    add_code(parser)
    parser.add_argument(
        "--name", metavar="RUN", help="name of the run (default: made from the job and its content)"
    )
    parser.add_argument(
        "--secrets-manifest",
        type=Path,
        metavar="FILE",
        help="write what holds the values of secrets to this new file, which only you can read",
    )


def main(args: argparse.Namespace) -> int:
    """Return exit status 0; 1 if the job is invalid or this cluster cannot run it; 2 for an existing file."""
    problems = Problems()
    args.host = given_host(args.policy)
    engine = given_engine(args.on, args.host)
    if reason := refusal(engine, "render", args.on):
        say(reason)
        return CANNOT_RUN
    try:
        job = EngineJob(args.job, args, engine, problems)
        job.run.check(job.plans, problems, ask=False)
        problems.check()
        rendered = job.run.render(job.plans, job.secrets, name=args.name)
    except InvalidInput as error:
        report_problems(error.problems)
        return INVALID
    except CannotRun as error:
        say(f"{error}")
        return INVALID
    report_problems(problems.in_order)
    if args.secrets_manifest is not None:
        try:
            _write_new(args.secrets_manifest, rendered.secret_text)
        except FileExistsError:
            say(f"{args.secrets_manifest} exists; choose another file, or remove it first")
            return CANNOT_RUN
    elif rendered.secret_names:
        names = ", ".join(rendered.secret_names)
        say(f"not shown: {names}; to write them to a file, use --secrets-manifest FILE")
    write_lines(rendered.text.removesuffix("\n").split("\n"))
    return 0


def _write_new(path: Path, text: str) -> None:
    """Write a new file. Raises OSError, and leave no file then."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        path.unlink()
        raise
