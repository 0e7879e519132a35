"""``pai-runtime validate``: every problem of a job file at once."""

import argparse
from collections.abc import Iterator

from pai_runtime.cli import INVALID
from pai_runtime.cli.arguments import add_job, add_json, add_policy
from pai_runtime.cli.common import user_name
from pai_runtime.cli.policy import given_host
from pai_runtime.document.problems import MOST_SHOWN, InvalidInput, Problem, errors, in_order
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.build import Planner, RoleUses, check_uses
from pai_runtime.terminal.output import report, report_problems, write_json, write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_job(parser)
    add_policy(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Exit status 0 for a valid job, 1 for one that is not."""
    problems = _problems(args, given_host(args.policy))
    found = len(errors(problems))
    if args.json:
        document = {"valid": not found, "problems": [problem.to_json() for problem in problems[:MOST_SHOWN]]}
        if len(problems) > MOST_SHOWN:
            document["more"] = len(problems) - MOST_SHOWN
        write_json(document)
    else:
        report_problems(problems)
        if found:
            report(f"{args.job} is not valid: {found} error{'s' if found > 1 else ''}")
        else:
            write_lines([f"{args.job} is valid"])
    return INVALID if found else 0


def _problems(args: argparse.Namespace, host: Host) -> tuple[Problem, ...]:
    try:
        job, problems = load_job(args.job, args.secrets)
        roles = check_uses(job, host, problems, lenient=True)
    except InvalidInput as error:
        return error.problems
    if not errors(problems):
        problems += _plan_problems(job, host, roles)
    return in_order(problems)


def _plan_problems(job: Job, host: Host, roles: list[RoleUses]) -> Iterator[Problem]:
    """What only plugins can tell, each from its own parameters, and what they add up to."""
    planner = Planner(job, host, roles, example_placement(job, user_name()), [])
    try:
        planner.plans(*((role, 0) for role in job.roles))
    except InvalidInput as error:
        yield from error.problems
    yield from planner.more_warnings
