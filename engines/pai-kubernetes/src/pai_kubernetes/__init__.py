"""The engine for Kubernetes, which runs a job as a JobSet."""

from typing import TYPE_CHECKING

from pai_runtime.plugin import hookimpl

if TYPE_CHECKING:
    from pai_runtime.engine import Engine, Profile


@hookimpl
def pai_engine(profile: "Profile") -> "Engine":
    """Open the cluster that a profile describes; raises `InvalidInput`."""
    from pai_kubernetes.cluster import KubernetesCluster  # noqa: PLC0415 - only what is used is imported

    return KubernetesCluster(profile)
