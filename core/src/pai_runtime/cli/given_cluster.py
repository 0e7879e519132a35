"""The cluster that the command line names."""

from pathlib import Path

from pai_runtime.engines.cluster import Cluster
from pai_runtime.engines.finding import open_cluster
from pai_runtime.host.policies_in_force import given_host


def given_cluster(name: str, policy: Path | None = None) -> Cluster:
    """Return the cluster of an engine profile, under all policies that there are; raises `InvalidInput`."""
    return open_cluster(name, given_host(policy))
