"""Checks of a job that ask the cluster."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from pai_kubernetes.api import paths
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import name_of
from pai_kubernetes.dry_run import dry_run, not_checked
from pai_kubernetes.labels import QUEUE, ROLE
from pai_kubernetes.manifests.objects import RenderedRun
from pai_kubernetes.manifests.origins import POD_TEMPLATE
from pai_kubernetes.node_capacity import Node, most, nodes_of, quantity, requested
from pai_kubernetes.profile import KubernetesProfile
from pai_kubernetes.run.queueing import kueue_version
from pai_network.fields import mapping
from pai_runtime.engine import Job, Problem, Problems, TaskRole
from pai_runtime.engine.messages import size_text

Object = Mapping[str, Any]

_OLDEST: Final = 33
"""The minor version of Kubernetes that has all that the completion policies need."""
_OLDEST_WITH_IMAGE_VOLUMES: Final = 35


def check_cluster(
    api: Api, rendered: RenderedRun, job: Job, profile: KubernetesProfile, problems: Problems
) -> None:
    """Report all that the cluster cannot give; what may not be asked is a note.

    Raises `ApiError` if unreachable.
    """
    _check_version(api, profile, problems)
    is_known = dry_run(api, rendered, problems)
    problems.add(
        *(Problem("cluster-warning", f"{api.label}: {text}", severity="warning") for text in api.warnings)
    )
    if not is_known:
        return
    jobset = rendered.objects[0]
    _check_nodes(api, jobset, job, problems)
    _check_quotas(api, jobset, job, problems)
    _check_claims(api, jobset, rendered, problems)
    _check_queue(api, jobset, job, problems)
    _check_priorities(api, jobset, job, problems)


def _check_version(api: Api, profile: KubernetesProfile, problems: Problems) -> None:
    version = api.get("/version")
    minor = re.match(r"\d+", str(version.get("minor")))
    if version.get("major") != "1" or not minor:
        return
    found = f"1.{minor[0]}"
    if int(minor[0]) < _OLDEST:
        message = f"{api.label}: Kubernetes {found} is too old; expected 1.{_OLDEST} or newer"
        problems.add(Problem("old-cluster", message, found=found))
    elif profile.delivery == "imageVolume" and int(minor[0]) < _OLDEST_WITH_IMAGE_VOLUMES:
        message = (
            f"{api.label}: Kubernetes {found} has image volumes only if an operator enabled them;"
            f" use 1.{_OLDEST_WITH_IMAGE_VOLUMES} or newer, or set delivery to copy in the profile"
        )
        problems.add(Problem("old-cluster", message, found=found, severity="warning"))


@contextmanager
def _may_be_forbidden(api: Api, what: str, problems: Problems) -> Iterator[None]:
    """Turn a forbidden request of the block into a note, since whoever runs the job may have the right."""
    try:
        yield
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        problems.add(not_checked(api, what, error))


def _check_nodes(api: Api, jobset: Object, job: Job, problems: Problems) -> None:
    with _may_be_forbidden(api, "whether a node has all that a task requests", problems):
        nodes = nodes_of(api.list(paths.nodes()).items)
        for role, pod in _pods(jobset, job):
            _check_role(role, pod, nodes, problems)


def _pods(jobset: Object, job: Job) -> Iterator[tuple[TaskRole, Object]]:
    """Yield each role with the spec of its pods."""
    for each in jobset["spec"]["replicatedJobs"]:
        template = each["template"]["spec"]["template"]
        yield job.roles[template["metadata"]["annotations"][ROLE]], template["spec"]


def _check_role(role: TaskRole, pod: Object, nodes: Sequence[Node], problems: Problems) -> None:
    selector = pod.get("nodeSelector", {})
    fitting = [node for node in nodes if node.has(selector)]
    if not fitting:
        labels = ", ".join(f"{key}={value}" for key, value in selector.items())
        message = f"no node has the labels {labels}" if labels else "the cluster has no nodes"
        place = role.sku_type.at(()) if role.sku_type else role.value.at(())
        problems.add(place.problem("no-node", message))
        return
    for resource, wanted in requested(pod).items():
        best = most(fitting, resource)
        if wanted > best.amount(resource):
            field = {"cpu": "cpu", "memory": "memoryMB"}.get(resource, "gpu")
            place = role.value.at(("resourcePerInstance", field))
            have = _shown(resource, best.amount(resource))
            message = (
                f"a task needs {_shown(resource, wanted)} on one node{_with_sidecar(resource)}, and no node"
                f"{' of this type' if selector else ''} has more than {have} ({best.name})"
            )
            problems.add(place.problem("exceeds-nodes", message))


def _check_quotas(api: Api, jobset: Object, job: Job, problems: Problems) -> None:
    """Report tasks that have to run at once and exceed the namespace's quotas, even if nothing else runs.

    Current usage by others does not matter, since it is freed later. Quotas for certain pods only are
    skipped.
    """
    with _may_be_forbidden(api, "whether the job fits the quotas of the namespace", problems):
        quotas = api.list(paths.resource_quotas(api.namespace)).items
        for resource, wanted in _at_once(jobset, job).items():
            for quota in quotas:
                spec = mapping(quota, "spec")
                hard = mapping(spec, "hard").get(resource)
                if hard is None or "scopes" in spec or "scopeSelector" in spec or wanted <= quantity(hard):
                    continue
                what, most = (
                    _shown(resource.rpartition("requests.")[2], each) for each in (wanted, quantity(hard))
                )
                tasks = "the tasks of the job need at once" if job.gang else "a task needs"
                message = f"{tasks} {what}, and the quota '{name_of(quota)}' of the namespace is {most}"
                problems.add(job.value.at(("taskRoles",)).problem("exceeds-quota", message))


def _at_once(jobset: Object, job: Job) -> dict[str, float]:
    """Return the total requests of pods that have to run at once, by their names in quotas."""
    total: dict[str, float] = {}
    for role, pod in _pods(jobset, job):
        count = role.instances if job.gang else 1
        for resource, amount in {**requested(pod), "pods": 1.0}.items():
            for name in (
                f"requests.{resource}",
                *([resource] if resource in ("cpu", "memory", "pods") else []),
            ):
                others = total.get(name, 0)
                total[name] = others + count * amount if job.gang else max(others, amount)
    return total


def _with_sidecar(resource: str) -> str:
    return " (with its sidecar)" if resource in ("cpu", "memory") else ""


def _shown(resource: str, amount: float) -> str:
    if resource == "memory":
        return f"{size_text(amount)} of memory"
    return f"{amount:g} {'CPUs' if resource == 'cpu' else resource}"


def _check_claims(api: Api, jobset: Object, rendered: RenderedRun, problems: Problems) -> None:
    fields: dict[str, str] = {}
    for number, each in enumerate(jobset["spec"]["replicatedJobs"]):
        for index, volume in enumerate(each["template"]["spec"]["template"]["spec"]["volumes"]):
            if claim := volume.get("persistentVolumeClaim", {}).get("claimName"):
                fields.setdefault(claim, f"{POD_TEMPLATE.format(number)}.spec.volumes[{index}]")
    for claim, field in fields.items():
        message = (
            f"the PersistentVolumeClaim '{claim}' of this storage does not exist in namespace"
            f" {api.namespace}; an operator has to create it, or correct the profile"
        )
        place, code = rendered.origins.of(field), "no-claim"
        missing = place.problem(code, message) if place else Problem(code, message)
        path = paths.persistent_volume_claims(api.namespace, claim)
        _check_exists(api, path, f"the claim '{claim}'", missing, problems)


def _check_queue(api: Api, jobset: Object, job: Job, problems: Problems) -> None:
    queue = jobset["metadata"]["labels"].get(QUEUE)
    if not queue:
        return
    place, what = job.value.at(("defaults", "virtualCluster")), f"the queue '{queue}'"
    with _may_be_forbidden(api, f"whether {what} exists", problems):
        try:
            version = kueue_version(api)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            message = f"names {what} in the profile, but Kueue is not installed on this cluster"
            problems.add(place.problem("no-queue", message))
            return
        message = (
            f"the LocalQueue '{queue}' of this virtual cluster does not exist in namespace"
            f" {api.namespace}; an operator has to create it, or correct the profile"
        )
        path = paths.local_queues(api.namespace, version, queue)
        _check_exists(api, path, what, place.problem("no-queue", message), problems)


def _check_priorities(api: Api, jobset: Object, job: Job, problems: Problems) -> None:
    """Report priority classes that do not exist, for which only the pods would be refused."""
    place = job.value.at(("defaults", "virtualCluster"))
    names = {pod.get("priorityClassName", "") for _, pod in _pods(jobset, job)} - {""}
    for name in sorted(names):
        what = f"priority class '{name}'"
        missing = place.problem("no-priority-class", f"its {what} does not exist on this cluster")
        _check_exists(api, paths.priority_classes(name), f"the {what}", missing, problems)


def _check_exists(api: Api, path: str, what: str, missing: Problem, problems: Problems) -> None:
    """Report `missing` if nothing is at a path; `what` names it in a note if the request is forbidden."""
    with _may_be_forbidden(api, f"whether {what} exists", problems):
        try:
            api.get(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            problems.add(missing)
