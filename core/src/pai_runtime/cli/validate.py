"""``pai-runtime validate``: every problem of a job file at once."""

import argparse
import json
import sys

from pai_runtime.cli.common import CANNOT_RUN, INVALID, given_policy, print_problems
from pai_runtime.host.host import Host
from pai_runtime.job.load import load_job
from pai_runtime.plan.build import check_uses
from pai_runtime.problems import InvalidInput, Problem, errors, in_order


def main(args: argparse.Namespace) -> int:
    """Exit status 0 for a valid job, 1 for one that is not, 2 for a policy that cannot be used."""
    try:
        host = Host(given_policy(args))
    except InvalidInput as error:
        print_problems(error.problems)
        return CANNOT_RUN
    problems = _problems(args, host)
    found = len(errors(problems))
    if args.json:
        document = {"valid": not found, "problems": [problem.to_json() for problem in problems]}
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        print_problems(problems)
        summary = "is valid" if not found else f"is not valid: {found} error{'s' if found > 1 else ''}"
        (sys.stderr if found else sys.stdout).write(f"{args.job} {summary}\n")
    return INVALID if found else 0


def _problems(args: argparse.Namespace, host: Host) -> tuple[Problem, ...]:
    try:
        job, problems = load_job(args.job, args.secrets)
        check_uses(job, host, problems, lenient=True)
    except InvalidInput as error:
        return error.problems
    return in_order(problems)
