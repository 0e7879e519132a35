"""Checks of a job against an engine profile alone, without asking the cluster."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from pai_kubernetes.manifests.resources import virtual_cluster
from pai_kubernetes.manifests.sizes import LEAST_OF_ROLE, MOST_OBJECT
from pai_kubernetes.profile import KubernetesProfile
from pai_kubernetes.run.roles import MOST_TASKS
from pai_pod.engine import task_images
from pai_runtime.engine import InvalidInput, Job, Plan, Problems, TaskRole
from pai_runtime.engine.jobs import asked_mounts, report_unknown_storage, use_location
from pai_runtime.engine.messages import Severity, listed
from pai_runtime.engine.records import TaskName

_MOST_ROLES_IN_QUEUE: Final = 8
"""Maximum for any version of Kueue: with more, older ones silently make no Workload."""


def check_counts(job: Job) -> None:
    """Raise `InvalidInput` if a job has more roles or tasks than a run can, which would take long to plan."""
    tasks = sum(role.instances for role in job.roles.values())
    counts = (
        ("too-many-roles", "task roles", len(job.roles), MOST_OBJECT // LEAST_OF_ROLE),
        ("too-many-tasks", "tasks", tasks, MOST_TASKS),
    )
    where = job.value.at(("taskRoles",))
    problems = [
        where.problem(
            code,
            f"{count} {what} are too many for a run on Kubernetes, which can have {most};"
            " make one role of those that are alike, or several jobs",
            found=str(count),
            expected=f"at most {most}",
        )
        for code, what, count, most in counts
        if count > most
    ]
    if problems:
        raise InvalidInput(problems)


def check(job: Job, plans: Mapping[TaskName, Plan], profile: KubernetesProfile, problems: Problems) -> None:
    """Report all that can be known before the cluster is asked."""
    _check_virtual_cluster(job, profile, problems)
    _check_roles_in_queue(job, profile, problems)
    _check_images(job, problems)
    for role in job.roles.values():
        _check_machines(role, profile, problems)
        _check_shared_memory(role, problems)
    _check_mounts(job, plans, profile, problems)
    _check_extras(job, problems)


def _check_virtual_cluster(job: Job, profile: KubernetesProfile, problems: Problems) -> None:
    known = profile.virtual_clusters
    name = job.virtual_cluster
    if known is None or name in known:
        return
    given = job.value.get("defaults", "virtualCluster")
    says = f"there is no virtual cluster '{name}'" + (
        "" if given else ", which a job without defaults.virtualCluster is in"
    )
    message = f"{says}; profile '{profile.name}' has {listed(list(known)) or 'none'}"
    meant = problems.suggestions.near_miss(name, known)
    where = job.value.at(("defaults", "virtualCluster"))
    problems.add(where.problem("unknown-virtual-cluster", message, found=name, suggestion=meant))


def _check_roles_in_queue(job: Job, profile: KubernetesProfile, problems: Problems) -> None:
    queue, found = virtual_cluster(job, profile).queue, len(job.roles)
    if queue and found > _MOST_ROLES_IN_QUEUE:
        message = (
            f"the job has {found} task roles, and may wait in the queue '{queue}' for ever: Kueue takes at"
            f" most {_MOST_ROLES_IN_QUEUE}, from 0.18 on 10, and from 0.19 on 18"
        )
        where = job.value.at(("taskRoles",))
        problems.add(where.problem("many-roles-in-queue", message, found=str(found), severity="warning"))


def _check_images(job: Job, problems: Problems) -> None:
    with problems.caught():
        for image in task_images(job, defaultdict(str)).values():  # who may pull them does not matter here
            if image.reference and "@" not in image.uri and ":" not in image.uri.rpartition("/")[2]:
                message = (
                    "has no tag, so it means 'latest', which may be a different image on each node; add a tag"
                )
                problems.add(
                    image.where.problem("image-without-tag", message, found=image.uri, severity="warning")
                )


def _check_machines(role: TaskRole, profile: KubernetesProfile, problems: Problems) -> None:
    """Report an unknown type of machines; a profile that defines none gives its default GPUs."""
    known = profile.sku_types
    name = role.sku_type.text if role.sku_type else ""
    if role.sku_type is None or name in known:
        return
    if known:
        message = (
            f"there are no machines of the type '{name}'; profile '{profile.name}' has {listed(list(known))}"
        )
    else:
        message = f"has no effect: profile '{profile.name}' defines no skuTypes"
    meant = problems.suggestions.near_miss(name, known)
    severity: Severity = "error" if known else "warning"
    where = role.sku_type.at(())
    problems.add(where.problem("unknown-sku-type", message, found=name, suggestion=meant, severity=severity))


def _check_shared_memory(role: TaskRole, problems: Problems) -> None:
    if role.shm_mb > role.memory_mb > 0:
        message = (
            f"exceeds memoryMB, {role.memory_mb} MiB, towards which /dev/shm counts;"
            " a task that uses all of it is killed"
        )
        where = role.value.at(("extraContainerOptions", "shmMB"))
        problems.add(where.problem("shm-exceeds-memory", message, found=str(role.shm_mb), severity="warning"))


def _check_mounts(
    job: Job, plans: Mapping[TaskName, Plan], profile: KubernetesProfile, problems: Problems
) -> None:
    for role, mount, use in asked_mounts(plans):
        known = mount.source in profile.storages
        if mount.kind == "storage" and not known:
            where = use_location(job, role, use, mount.source)
            report_unknown_storage(mount.source, use, where, profile.name, profile.storages, problems)
        options = use.parameters.get("options")
        if mount.kind == "nfs" and not known and options:
            message = (
                "mount options have no effect: the nodes mount the export with their own; an operator can"
                " make it a storage by a PersistentVolume with mountOptions"
            )
            at_options = use_location(job, role, use, str(options))
            problems.add(at_options.problem("no-effect", message, severity="warning"))


def _check_extras(job: Job, problems: Problems) -> None:
    if job.environment:
        message = (
            "variables of whoever submits the job are not passed to a cluster;"
            " use parameters, or secrets for what nobody may see"
        )
        where = job.value.at(("extras", "environment"))
        problems.add(where.problem("no-effect", message, severity="warning"))
    if job.hold:
        message = (
            "a task that fails keeps its node and its GPUs that long;"
            " `pai-runtime exec` says how to enter its container"
        )
        where = job.value.at(("extras", "holdOnFailure"))
        problems.add(where.problem("held", message, severity="note"))
