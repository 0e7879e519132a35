"""Paths of the Kubernetes API; without a name they are those of the collection."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

JOBSET_GROUP = "jobset.x-k8s.io"
JOBSET_API = f"{JOBSET_GROUP}/v1alpha2"
KUEUE_GROUP = "kueue.x-k8s.io"


def jobsets(namespace: str, name: str = "") -> str:
    """Return the path of a JobSet; without a name, of the collection."""
    return _path(f"/apis/{JOBSET_API}", namespace, "jobsets", name)


def jobs(namespace: str, name: str = "") -> str:
    """Return the path of a Job; without a name, of the collection."""
    return _path("/apis/batch/v1", namespace, "jobs", name)


def pods(namespace: str, name: str = "") -> str:
    """Return the path of a pod; without a name, of the collection."""
    return _path("/api/v1", namespace, "pods", name)


def pod_log(namespace: str, name: str) -> str:
    """Return the path of the log of a pod."""
    return f"{pods(namespace, name)}/log"


def pod_exec(namespace: str, name: str) -> str:
    """Return the path by which a program is run in a pod."""
    return f"{pods(namespace, name)}/exec"


def pod_port_forward(namespace: str, name: str) -> str:
    """Return the path by which ports of a pod are connected to."""
    return f"{pods(namespace, name)}/portforward"


def config_maps(namespace: str, name: str = "") -> str:
    """Return the path of a ConfigMap; without a name, of the collection."""
    return _path("/api/v1", namespace, "configmaps", name)


def secrets(namespace: str, name: str = "") -> str:
    """Return the path of a Secret; without a name, of the collection."""
    return _path("/api/v1", namespace, "secrets", name)


def events(namespace: str) -> str:
    """Return the path of events in the core group, where those of the scheduler and kubelets are."""
    return _path("/api/v1", namespace, "events")


def persistent_volume_claims(namespace: str, name: str = "") -> str:
    """Return the path of a claim of a persistent volume; without a name, of the collection."""
    return _path("/api/v1", namespace, "persistentvolumeclaims", name)


def resource_quotas(namespace: str) -> str:
    """Return the path of the quotas of a namespace."""
    return _path("/api/v1", namespace, "resourcequotas")


def nodes(name: str = "") -> str:
    """Return the path of a node; without a name, of the collection."""
    return _path("/api/v1", "", "nodes", name)


def priority_classes(name: str = "") -> str:
    """Return the path of a priority class; without a name, of the collection."""
    return _path("/apis/scheduling.k8s.io/v1", "", "priorityclasses", name)


def local_queues(namespace: str, version: str, name: str = "") -> str:
    """Return the path of a local queue of Kueue, in a version of its API such as ``v1beta1``."""
    return _path(f"/apis/{KUEUE_GROUP}/{version}", namespace, "localqueues", name)


def workloads(namespace: str, version: str, name: str = "") -> str:
    """Return the path of a Workload of Kueue, in a version of its API such as ``v1beta1``."""
    return _path(f"/apis/{KUEUE_GROUP}/{version}", namespace, "workloads", name)


def api_group(group: str) -> str:
    """Return the path of the versions of an API group; 404 means that it is not installed."""
    return f"/apis/{quote(group, safe='')}"


def _path(root: str, namespace: str, resource: str, name: str = "") -> str:
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{within}/{resource}" + (f"/{quote(name, safe='')}" if name else "")


OF_KIND: Final = {"JobSet": jobsets, "ConfigMap": config_maps, "Secret": secrets}
"""The functions for the paths of a run's objects, by kind."""


@dataclass(frozen=True)
class Target:
    """The parts of a path, for messages."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str

    @property
    def full_resource(self) -> str:
        """The resource as RBAC and kubectl name it: ``jobsets.jobset.x-k8s.io``, ``pods/log``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.full_resource}{name}" + (f" in namespace {self.namespace}" if self.namespace else "")


def target_of(path: str) -> Target:
    """Parse one of these paths."""
    parts = [unquote(part) for part in path.split("/")[1:]]
    if len(parts) == 1:  # such as /version
        return Target("", "", "", parts[0], "")
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], (*parts, "")[2])
    rest = parts[2 if parts[0] == "api" else 3 :]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":  # noqa: PLR2004 - more than the namespace itself
        namespace, rest = rest[1], rest[2:]
    resource, name, below = (*rest, "", "", "")[:3]
    return Target(group, version, namespace, f"{resource}/{below}" if below else resource, name)
