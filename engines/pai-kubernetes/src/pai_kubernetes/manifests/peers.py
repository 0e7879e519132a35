"""The host names of the tasks of a run, which JobSet gives to their pods."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pai_kubernetes.names import role_names
from pai_pod.engine import Peers
from pai_runtime.engine import Job

BARRIER_SECONDS: Final = 600.0
"""Seconds for which the tasks of a gang wait for each other, as on OpenPAI."""


def run_roles(job: Job, run: str) -> dict[str, str]:
    """Return the names of a run's replicated jobs, by role."""
    return role_names(job.roles, run, {name: role.instances for name, role in job.roles.items()})


def run_peers(job: Job, run: str, roles: Mapping[str, str], user: str) -> Peers:
    """Return the peers of the tasks of a run; `roles` is the result of `run_roles`."""
    hosts = {role: f"{run}-{name}-0-{{index}}.{run}" for role, name in roles.items()}
    called = Path(job.file).name
    return Peers(
        framework=run,
        user=user,
        gang=job.gang,
        barrier_seconds=BARRIER_SECONDS,
        hosts=hosts,
        job_file=called if called.isprintable() else "",
    )
