"""A run as objects of Kubernetes: pure, and reproducible for the same job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pai_kubernetes.manifests.config_map import code_config_maps, job_config_map
from pai_kubernetes.manifests.jobset import job_set
from pai_kubernetes.manifests.origins import Origins, job_set_origins
from pai_kubernetes.manifests.peers import run_roles
from pai_kubernetes.manifests.pod import pod_template
from pai_kubernetes.manifests.policies import Policies
from pai_kubernetes.manifests.provenance import provenance_text
from pai_kubernetes.manifests.run_objects import CONFIG_MAPS, RunObjects
from pai_kubernetes.manifests.secret import job_secret, pull_secret
from pai_kubernetes.manifests.sizes import check_sizes
from pai_kubernetes.manifests.storages import storage_volumes
from pai_kubernetes.names import LONGEST_RUN, is_run_name
from pai_kubernetes.profile import KubernetesProfile
from pai_pod.engine import task_images
from pai_runtime.engine import CannotRun, Job, Plan, RunRequest
from pai_runtime.engine.code import STORAGE, PackedCode, pack_code
from pai_runtime.engine.jobs import job_config
from pai_runtime.engine.records import TaskName


@dataclass(frozen=True)
class RenderedRun:
    """The objects of a run in the order in which they have to be created, the JobSet first.

    `objects` hold no secret value; `secrets` are those that do. `origins` are those of the JobSet's fields,
    `job_digest` is that of the job file.
    """

    objects: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]
    origins: Origins
    job_digest: str

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of a digest over everything rendered, except for secrets."""
        return sha256(json.dumps([self.objects, self.job_digest], sort_keys=True).encode()).hexdigest()[:8]


def render(  # noqa: PLR0913 - all that a run is made of
    job: Job,
    plans: Mapping[TaskName, Plan],
    request: RunRequest,
    profile: KubernetesProfile,
    *,
    name: str,
    policies: Policies,
    run_secret: str,
    secrets: Mapping[str, str],
    code: PackedCode | None,
) -> RenderedRun:
    """Return the objects of the run `name`.

    `run_secret` is what its tasks share and nobody else knows: 64 hexadecimal digits. `secrets` are the
    values of the job's, by their paths. Raises `InvalidInput` for faults of the job, and `CannotRun`.
    """
    if not is_run_name(name):
        raise CannotRun(
            f"'{name}' cannot be the name of a run: expected at most {LONGEST_RUN} lower-case letters, digits"
            " and '-', beginning with a letter and not ending with '-'"
        )
    of_role = {role: _plan(role, plans) for role in job.roles}
    images = task_images(job, secrets)
    run = RunObjects(
        name,
        run_roles(job, name),
        job,
        request,
        profile,
        has_pull_secret=any(each.credentials for each in images.values()),
        job_file=job_config(job),
        code=code,
    )
    pull = pull_secret(run, list(images.values()))
    storages = {
        role: storage_volumes(plan, job.name, request.user, profile) for role, plan in of_role.items()
    }
    pods = {
        role: pod_template(run, job.roles[role], plan, images[role].uri, storages[role])
        for role, plan in of_role.items()
    }
    came_from = provenance_text(request, plans.values())
    objects = [job_set(run, policies, pods, came_from), job_config_map(run), *code_config_maps(run)]
    own_secrets = [job_secret(run, run_secret), *([pull] if pull else [])]
    check_sizes([*objects, *own_secrets])
    origins = job_set_origins(job, images, storages, pods, profile.runtime_image_at)
    return RenderedRun(objects, own_secrets, origins, run.job_file.digest)


def packed_code(request: RunRequest, profile: KubernetesProfile) -> PackedCode | None:
    """Return the code of a run, packed as it comes to its pods; None without any.

    Raises `CannotRun` if it is too large, and `InvalidInput` with all that cannot be read.
    """
    return pack_code(request.code, STORAGE if profile.code else CONFIG_MAPS) if request.code else None


def _plan(role: str, plans: Mapping[TaskName, Plan]) -> Plan:
    """Return the plan of a role's first task.

    Raises `CannotRun` if others have other mounts: pods are all alike.
    """
    first = plans[role, 0]
    for (other, index), plan in plans.items():
        if other == role and plan.mounts != first.mounts:
            raise CannotRun(
                f"{role}/{index} has other mounts than {role}/0, but on a cluster all tasks of a role have"
                " the same; choose a directory for each in the commands, by $PAI_TASK_INDEX"
            )
    return first
