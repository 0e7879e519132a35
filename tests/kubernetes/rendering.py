"""Jobs, rendered without a cluster."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pai_document.problems import Problems
from pai_kubernetes.manifests.objects import RenderedRun, packed_code, render
from pai_kubernetes.manifests.peers import run_peers, run_roles
from pai_kubernetes.manifests.policies import policies
from pai_kubernetes.profile import KubernetesProfile, Storage, VirtualCluster
from pai_pod.placement import peers_placement
from pai_runtime.engines.interface import RunRequest
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.build import Planner
from pai_runtime.plan.environment import TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_task.plan import Plan
from tests.support import write_job

PROFILE = KubernetesProfile(
    "lab",
    "registry.example.com/runtime:1",
    namespace="team-a",
    storages={
        "datasets": Storage("datasets", claim="datasets", read_only=True),
        "scratch": Storage("scratch", nfs_server="nfs", nfs_path="/exports/scratch", sub_path="%user/%JOB"),
        "cache": Storage("cache", host_path="/var/cache/pai"),
    },
    virtual_clusters={"default": VirtualCluster("default")},
)
RUN = "test-bcdfg"
RUN_SECRET = "0" * 64


@cache
def _host() -> Host:
    """To read what is installed takes long, and it stays as it is."""
    return Host(NO_POLICY)


def planned(path: Path, secrets: Path | None = None) -> Planner:
    """What makes the plans of a job file for a cluster; raises `InvalidInput`."""
    files = JobFiles(path, secrets)
    return plan_job(
        files,
        _host(),
        lambda job: peers_placement(
            job, run_peers(job, RUN, run_roles(job, RUN), "alice"), {}, "/usr/local/pai"
        ),
        Problems(),
    )


def render_file(
    path: Path,
    profile: KubernetesProfile = PROFILE,
    *,
    name: str = RUN,
    request: RunRequest | None = None,
    secrets: Path | None = None,
) -> RenderedRun:
    """The objects of a job file, whatever its policies; raises `InvalidInput` and `CannotRun`."""
    planner = planned(path, secrets)
    return render_plans(planner.job, planner.plans(), profile, name=name, request=request)


def render_plans(
    job: Job,
    plans: Mapping[TaskName, Plan],
    profile: KubernetesProfile,
    *,
    name: str = RUN,
    request: RunRequest | None = None,
) -> RenderedRun:
    """The same of a job that is planned."""
    request = request or RunRequest("alice")
    return render(
        job,
        plans,
        request,
        profile,
        name=name,
        policies=policies(job, run_roles(job, name), {}, Problems()),
        run_secret=RUN_SECRET,
        secrets=secret_values(job.secrets),
        code=packed_code(request, profile),
    )


def render_job(
    folder: Path, document: Mapping[str, Any] | str, profile: KubernetesProfile = PROFILE, **more: Any
) -> RenderedRun:
    """The same for a document."""
    return render_file(write_job(folder, document), profile, **more)


def job_set(rendered: RenderedRun) -> Mapping[str, Any]:
    """The JobSet among the objects."""
    return rendered.objects[0]


def pod(rendered: RenderedRun, role: int = 0) -> Mapping[str, Any]:
    """The spec of the pods of a role."""
    found: Mapping[str, Any] = job_set(rendered)["spec"]["replicatedJobs"][role]["template"]["spec"][
        "template"
    ]
    return found


def container(rendered: RenderedRun, name: str = "app") -> Mapping[str, Any]:
    """A container of the pods of the first role."""
    spec = pod(rendered)["spec"]
    found = [each for each in (*spec["initContainers"], *spec["containers"]) if each["name"] == name]
    (only,) = found
    result: Mapping[str, Any] = only
    return result


def named(rendered: RenderedRun, name: str) -> Mapping[str, Any]:
    """An object by its name, Secrets among them."""
    every = (*rendered.objects, *rendered.secrets)
    return next(each for each in every if each["metadata"]["name"] == name)
