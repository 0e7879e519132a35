"""What the pods of a task role need, and on which nodes they may run."""

from typing import Any, Final

from pai_kubernetes.profile import KubernetesProfile, VirtualCluster
from pai_runtime.job.model import Job, TaskRole

_INIT_MEMORY_MB: Final = 512
"""At most; a pod needs no more than its containers do at once, so this takes nothing from anybody."""

RUNTIME_LOG: Final = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"cpu": "200m", "memory": "128Mi"},
}
"""Of the container that prints the runtime's log."""


def task_resources(role: TaskRole, profile: KubernetesProfile) -> dict[str, Any]:
    """Of the task's container: what it requests it gets, no more and no less; what is 0 is left open."""
    amounts = {}
    if role.cpu:
        amounts["cpu"] = str(role.cpu)
    if role.memory_mb:
        amounts["memory"] = f"{role.memory_mb}Mi"
    if role.gpu:
        amounts[gpu_resource(role, profile)] = str(role.gpu)
    return {"requests": amounts, "limits": dict(amounts)}


def init_resources(role: TaskRole) -> dict[str, Any]:
    """Of the init container: a namespace with a quota takes no container without."""
    limits = {"cpu": str(max(role.cpu, 1)), "memory": f"{max(role.memory_mb, _INIT_MEMORY_MB)}Mi"}
    return {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": limits}


def gpu_resource(role: TaskRole, profile: KubernetesProfile) -> str:
    """The resource that the GPUs of a role are.

    How many there are, ``gpu`` says alone, as on OpenPAI: of a role without GPUs, ``skuType`` says where it
    runs, and ``skuNum`` counts what HiveD calls cells.
    """
    sku = profile.sku_types.get(role.sku_type.text) if role.sku_type else None
    return sku.gpu_resource if sku else profile.gpu_resource


def virtual_cluster(job: Job, profile: KubernetesProfile) -> VirtualCluster:
    """That of a job; one that the profile does not have means nothing, which is said elsewhere."""
    clusters = profile.virtual_clusters or {}
    return clusters.get(job.virtual_cluster) or VirtualCluster(job.virtual_cluster)


def scheduling(job: Job, role: TaskRole, profile: KubernetesProfile) -> dict[str, Any]:
    """Fields of the pod that say where it may run, and how important it is."""
    cluster = virtual_cluster(job, profile)
    sku = profile.sku_types.get(role.sku_type.text) if role.sku_type else None
    fields = {
        "priorityClassName": cluster.priority_class,
        "nodeSelector": {**cluster.node_selector, **(sku.node_selector if sku else {})},
        "tolerations": list(cluster.tolerations),
    }
    return {key: value for key, value in fields.items() if value}
