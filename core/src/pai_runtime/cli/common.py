"""What several commands do: load a job under a policy, and print what is wrong."""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY, Policy, read_policy
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.build import RoleUses, check_uses
from pai_runtime.problems import InvalidInput, Problem, errors, in_order

INVALID = 1
CANNOT_RUN = 2


def given_policy(args: argparse.Namespace) -> Policy:
    """The policy of the command line or the environment; raises `InvalidInput`."""
    if args.policy is not None:
        return read_policy(args.policy)
    if "PAI_RUNTIME_POLICY" in os.environ:
        return read_policy(Path(os.environ["PAI_RUNTIME_POLICY"]))
    return NO_POLICY


def load_checked(args: argparse.Namespace, host: Host) -> tuple[Job, list[RoleUses], list[Problem]]:
    """The job with its checked uses and its warnings; raises `InvalidInput` with every problem there is."""
    job, problems = load_job(args.job, args.secrets)
    roles = check_uses(job, host, problems)
    if errors(problems):
        raise InvalidInput(in_order(problems))
    return job, roles, list(in_order(problems))


def print_problems(problems: Iterable[Problem]) -> None:
    """One line for each, on standard error."""
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.stderr.flush()
