"""The entry point of the engine, which opens the cluster of an engine profile."""

from pai_kubernetes.cluster import KubernetesCluster
from pai_runtime.engines.cluster import Cluster
from pai_runtime.engines.profiles import Profile


def open_cluster(profile: Profile) -> Cluster:
    """Return the cluster that a profile describes. Raises `InvalidInput`."""
    return KubernetesCluster(profile)
