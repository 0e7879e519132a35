"""What several commands do: load a job under a policy, and say who runs it."""

import argparse
import getpass
import os

from pai_runtime.document.problems import InvalidInput, Problem, errors, in_order
from pai_runtime.host.host import Host
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.build import RoleUses, check_uses


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
