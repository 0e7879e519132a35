"""``pai-runtime validate``: every problem of a job file at once."""

import argparse

from pai_runtime.cli import INVALID
from pai_runtime.cli.arguments import add_job, add_json, add_policy
from pai_runtime.cli.policy import given_host
from pai_runtime.cli.user import user_name
from pai_runtime.document.problems import MOST_SHOWN, Problem, Problems, errors
from pai_runtime.engines.code import find_code
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
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
            report(f"{args.job} is invalid: {found} error{'s' if found > 1 else ''}")
        else:
            write_lines([f"{args.job} is valid"])
    return INVALID if found else 0


def _problems(args: argparse.Namespace, host: Host) -> tuple[Problem, ...]:
    problems = Problems()
    user = user_name()
    with problems.caught():
        planner = plan_job(
            JobFiles(args.job, args.secrets),
            host,
            lambda job: example_placement(job, user),
            problems,
            lenient=True,
        )
        # What only plugins can tell, each from its own parameters, and what they add up to.
        planner.plans(*((role, 0) for role in planner.job.roles))
        find_code(planner.job, None, ())
    return problems.in_order
