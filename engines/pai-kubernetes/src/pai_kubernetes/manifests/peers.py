"""By which names the tasks of a run are reached: JobSet gives their pods these."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pai_kubernetes.names import role_names
from pai_runtime.job.model import Job
from pai_runtime.pod.peers import Peers

BARRIER_SECONDS: Final = 600.0
"""For how long the tasks of a gang wait for each other, as on OpenPAI."""


def run_roles(job: Job, run: str) -> dict[str, str]:
    """The names of the replicated jobs of a run, by role."""
    return role_names(job.roles, run, {name: role.instances for name, role in job.roles.items()})


def run_peers(job: Job, run: str, roles: Mapping[str, str], user: str) -> Peers:
    """The peers of the tasks of a run, whose `roles` are those of `run_roles`."""
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
