"""``pai-runtime validate``: every problem of a job file at once."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pai_runtime.cli import INVALID
from pai_runtime.cli.arguments import add_jobs, add_json, add_policy
from pai_runtime.cli.library import JobLibrary
from pai_runtime.cli.overrides import add_overrides, given_overrides
from pai_runtime.cli.policy import given_host
from pai_runtime.cli.user import user_name
from pai_runtime.document.amounts import counted
from pai_runtime.document.problems import MOST_SHOWN, Problem, Problems, errors
from pai_runtime.engines.code import find_code
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.task.record import replace
from pai_runtime.terminal.output import report, report_problems, write_json, write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_jobs(parser)
    add_overrides(parser)
    add_policy(parser)
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Exit status 0 if all jobs are valid, 1 if one is not."""
    host, documents = given_host(args.policy), []
    for job in args.jobs:
        files = JobFiles(job, args.secrets, given_overrides(args), JobLibrary(job, host))
        problems = _problems(files, host)
        if args.strict:
            problems = tuple(map(stricter, problems))
        documents.append(validity(problems))
        if not args.json:
            _report(job, problems)
    is_valid = all(document["valid"] for document in documents)
    if args.json and len(documents) == 1:
        write_json(documents[0])
    elif args.json:
        jobs = [{"file": str(job), **document} for job, document in zip(args.jobs, documents, strict=True)]
        write_json({"valid": is_valid, "jobs": jobs})
    return 0 if is_valid else INVALID


def stricter(problem: Problem) -> Problem:
    """The problem as ``--strict`` takes it."""
    return replace(problem, severity="error") if problem.severity == "warning" else problem


def validity(problems: Sequence[Problem]) -> dict[str, Any]:
    """What is printed as JSON of what has these problems."""
    shown = [problem.to_json() for problem in problems[:MOST_SHOWN]]
    more = {"more": len(problems) - MOST_SHOWN} if len(problems) > MOST_SHOWN else {}
    return {"valid": not errors(problems), "problems": shown, **more}


def _report(job: Path, problems: Sequence[Problem]) -> None:
    report_problems(problems)
    if found := len(errors(problems)):
        report(f"{job} is invalid: {counted(found, 'error', 'errors')}")
    else:
        write_lines([f"{job} is valid"])


def _problems(files: JobFiles, host: Host) -> tuple[Problem, ...]:
    problems = Problems()
    user = user_name()
    with problems.caught():
        planner = plan_job(files, host, lambda job: example_placement(job, user), problems, lenient=True)
        # What only plugins can tell, each from its own parameters, and what they add up to.
        planner.plans(*((role, 0) for role in planner.job.roles))
        find_code(planner.job, None, ())
    return problems.in_order
