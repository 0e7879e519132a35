"""The entry point: a cluster out of an engine profile."""

from pai_kubernetes.cluster import KubernetesCluster
from pai_runtime.engines.cluster import Cluster
from pai_runtime.engines.profiles import Profile


def open_cluster(profile: Profile) -> Cluster:
    """The cluster that a profile describes; raises `InvalidInput`."""
    return KubernetesCluster(profile)
