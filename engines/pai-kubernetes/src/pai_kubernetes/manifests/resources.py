"""The resources of a task role's pods, and the nodes on which they may run."""

from typing import Any, Final

from pai_kubernetes.profile import KubernetesProfile, VirtualCluster
from pai_runtime.engine import Job, TaskRole

_INIT_MEMORY_MB: Final = 512
"""Memory of the init container, which a pod does not need in addition to its containers' own."""

RUNTIME_LOG: Final = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"cpu": "200m", "memory": "128Mi"},
}
"""Resources of the container that prints the runtime's log."""


def task_resources(role: TaskRole, profile: KubernetesProfile) -> dict[str, Any]:
    """Return the resources of the task's container: limits equal requests, and what is 0 is left open."""
    amounts = {}
    if role.cpu:
        amounts["cpu"] = str(role.cpu)
    if role.memory_mb:
        amounts["memory"] = f"{role.memory_mb}Mi"
    if role.gpu:
        amounts[gpu_resource(role, profile)] = str(role.gpu)
    return {"requests": amounts, "limits": dict(amounts)}


def init_resources(role: TaskRole) -> dict[str, Any]:
    """Return the resources of the init container, which a namespace with a quota requires."""
    limits = {"cpu": str(max(role.cpu, 1)), "memory": f"{max(role.memory_mb, _INIT_MEMORY_MB)}Mi"}
    return {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": limits}


def gpu_resource(role: TaskRole, profile: KubernetesProfile) -> str:
    """Return the name of the resource for the GPUs of a role.

    Their number is given by ``gpu`` alone, as on OpenPAI: for a role without GPUs, ``skuType`` says where it
    runs, and ``skuNum`` counts what HiveD calls cells.
    """
    sku = profile.sku_types.get(role.sku_type.text) if role.sku_type else None
    return sku.gpu_resource if sku else profile.gpu_resource


def virtual_cluster(job: Job, profile: KubernetesProfile) -> VirtualCluster:
    """Return the virtual cluster of a job; one that the profile lacks has no settings."""
    clusters = profile.virtual_clusters or {}
    return clusters.get(job.virtual_cluster) or VirtualCluster(job.virtual_cluster)


def scheduling(job: Job, role: TaskRole, profile: KubernetesProfile) -> dict[str, Any]:
    """Return the fields of a pod that determine where it may run, and its priority."""
    cluster = virtual_cluster(job, profile)
    sku = profile.sku_types.get(role.sku_type.text) if role.sku_type else None
    fields = {
        "priorityClassName": cluster.priority_class,
        "nodeSelector": {**cluster.node_selector, **(sku.node_selector if sku else {})},
        "tolerations": list(cluster.tolerations),
    }
    return {key: value for key, value in fields.items() if value}
