"""``pai-runtime validate``: reports every problem of job files at once."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pai_document.amounts import counted
from pai_document.document import read_document
from pai_document.problems import (
    InvalidInput,
    Problem,
    Problems,
    errors,
    listed,
    near_miss,
    stricter,
    validity,
)
from pai_document.value import Value
from pai_runtime.cli.arguments import add_debug, add_jobs, add_json, add_on, add_policy
from pai_runtime.cli.overrides import add_overrides, given_overrides
from pai_runtime.cli.user import user_name
from pai_runtime.engines.code import find_code
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.secrets import masks
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.errors import CannotRun
from pai_runtime.terminal.output import report, report_problems, say, write_json, write_lines
from pai_task.exit_codes import CANNOT_RUN, INVALID

_HOOK: Final = "pai_check_job"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_jobs(parser)
    add_overrides(parser)
    add_policy(parser)
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_json(parser)
    add_debug(parser)
    add_on(parser, "also check what the cluster of this engine profile (engines.yaml) can give")
    parser.add_argument(
        "--for",
        dest="platform",
        metavar="PLATFORM",
        help="also check what this platform, such as openpai, would refuse; not with --on",
    )


def main(args: argparse.Namespace) -> int:
    """Return exit status 0 if all jobs are valid, 1 if one is not, 2 for options that exclude each other."""
    if args.platform and args.on is not None:
        say("--for and --on cannot be used together")
        return CANNOT_RUN
    checked = _anywhere(args) if args.on is None else _on_engine(args)
    documents = []
    for job in args.jobs:
        problems = checked(job)
        if args.strict:
            problems = tuple(map(stricter, problems))
        documents.append(validity(problems))
        if not args.json:
            _report(job, problems, frames=args.debug)
    is_valid = all(document["valid"] for document in documents)
    if args.json and len(documents) == 1:
        write_json(documents[0])
    elif args.json:
        jobs = [{"file": str(job), **document} for job, document in zip(args.jobs, documents, strict=True)]
        write_json({"valid": is_valid, "jobs": jobs})
    return 0 if is_valid else INVALID


def _report(job: Path, problems: Sequence[Problem], *, frames: bool) -> None:
    report_problems(problems, frames=frames)
    if found := len(errors(problems)):
        report(f"{job} is invalid: {counted(found, 'error', 'errors')}")
    else:
        write_lines([f"{job} is valid"])


def _anywhere(args: argparse.Namespace) -> Callable[[Path], Sequence[Problem]]:
    """Return a function that checks a job file independently of where it will run."""
    host, user = given_host(args.policy), user_name()
    checker = _checker(host, args.platform) if args.platform else None

    def checked(job: Path) -> Sequence[Problem]:
        problems = Problems()
        with problems.caught():
            given = read_document(job) if checker else job
            files = JobFiles(given, args.secrets, given_overrides(args), JobDefinitions(host, job))
            if checker and isinstance(given, Value):
                problems.mask = masks({}, given)
                _check(host, checker, given, problems)
            planner = plan_job(files, host, lambda job: example_placement(job, user), problems, lenient=True)
            # What only plugins can tell, each from its own parameters, and what they add up to.
            planner.plans(*((role, 0) for role in planner.job.roles))
            find_code(planner.job, None, (job, *filter(None, [args.secrets])))
        return problems.in_order

    return checked


def _checker(host: Host, platform: str) -> Plugin:
    """Return the plugin that knows what a platform refuses. Raises `InvalidInput` if none may be used."""
    found = {
        id_.rpartition(".")[2]: id_
        for id_, claimants in host.installed.items()
        if _HOOK in claimants[0].manifest.hooks
    }
    if platform not in found:
        known = f"known: {listed(list(found))}" if found else "that for OpenPAI is in pai-openpai"
        message = f"--for: no plugin knows what '{platform}' refuses; {known}"
        raise InvalidInput([Problem("no-such-platform", message, suggestion=near_miss(platform, found))])
    try:
        return host.find(found[platform])
    except Unavailable as error:
        raise InvalidInput([Problem("plugin-refused", f"--for: {error}")]) from None


def _check(host: Host, checker: Plugin, document: Value, problems: Problems) -> None:
    try:
        host.call(checker, _HOOK, document=document, problems=problems)
    except PluginError as error:
        problems.add(document.problem("plugin-error", str(error)))


def _on_engine(args: argparse.Namespace) -> Callable[[Path], Sequence[Problem]]:
    """Return a function that checks a job file for the engine of a profile.

    It raises `ClusterError` if that cannot be asked.
    """
    from pai_runtime.cli.engine_job import EngineJob  # noqa: PLC0415 - not without an engine
    from pai_runtime.cli.given_run import given_engine  # noqa: PLC0415 - as above

    args.host = given_host(args.policy)
    engine = given_engine(args.on, args.host)

    def checked(path: Path) -> Sequence[Problem]:
        problems = Problems()
        try:
            with problems.caught():
                job = EngineJob(path, args, engine, problems)
                try:
                    job.run.check(job.plans, problems)
                finally:
                    job.run.discard()
        except CannotRun as error:
            problems.add(Problem("cannot-run", str(error)))
        return problems.in_order

    return checked
