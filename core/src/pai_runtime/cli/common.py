"""What several commands do: load a job under a policy, and print what is wrong."""

import argparse
import getpass
import os
import sys

from pai_runtime.host.host import Host
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.build import RoleUses, check_uses
from pai_runtime.problems import InvalidInput, Problem, errors, in_order


def say(text: str) -> None:
    """A message to the person at the command line; standard output is for what was asked for."""
    sys.stderr.write(f"pai-runtime: {text}\n")
    sys.stderr.flush()


def user_name() -> str:
    """Who runs the job; in a container the user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def load_checked(args: argparse.Namespace, host: Host) -> tuple[Job, list[RoleUses], list[Problem]]:
    """The job with its checked uses and its warnings; raises `InvalidInput` with every problem there is."""
    job, problems = load_job(args.job, args.secrets)
    roles = check_uses(job, host, problems)
    if errors(problems):
        raise InvalidInput(in_order(problems))
    return job, roles, list(in_order(problems))
