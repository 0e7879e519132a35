"""An engine profile for Kubernetes, typed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pai_runtime.engine import Location

Delivery = Literal["copy", "imageVolume"]


@dataclass(frozen=True)
class Storage:
    """One of the cluster's storages: exactly one of a claim, an NFS export and a directory of the nodes.

    `sub_path` is the directory in it that serves as its root; ``%USER`` and ``%JOB`` in it, in any case,
    stand for the user and the name of the job.
    """

    name: str
    claim: str = ""
    nfs_server: str = ""
    nfs_path: str = ""
    host_path: str = ""
    sub_path: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class MountedStorage:
    """A storage of the cluster, and where this machine has it; empty: nowhere."""

    storage: Storage
    mounted_at: str = ""


@dataclass(frozen=True)
class VirtualCluster:
    """The meaning of a virtual cluster: a local queue of Kueue, and the priority and placement of its pods.

    `priority_class` is the pods' PriorityClass; Kueue orders its queue by it too, unless there is a
    `workload_priority_class`, which is Kueue's WorkloadPriorityClass and has no meaning for pods.
    """

    name: str
    queue: str = ""
    priority_class: str = ""
    workload_priority_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class SkuType:
    """The meaning of a `skuType` of ``extras.hivedScheduler``: the resource of its GPUs, and their nodes."""

    name: str
    gpu_resource: str
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KubernetesProfile:
    """The way in which a Kubernetes cluster is used.

    `runtime_image_at` is the location of the image in the profile. `ttl` is the number of seconds after which
    a finished run is removed. Empty `context` and `namespace` mean those of the kubeconfig, an empty
    `kubeconfig` means ``$KUBECONFIG`` or ``~/.kube/config``. `virtual_clusters` None accepts any, without
    meaning. `output` is for the output of tasks, `code` for code that is too large for ConfigMaps.
    """

    name: str
    runtime_image: str
    delivery: Delivery = "copy"
    context: str = ""
    kubeconfig: str = ""
    namespace: str = ""
    storages: Mapping[str, Storage] = field(default_factory=dict)
    virtual_clusters: Mapping[str, VirtualCluster] | None = None
    gpu_resource: str = "nvidia.com/gpu"
    sku_types: Mapping[str, SkuType] = field(default_factory=dict)
    runtime_image_at: Location | None = None
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: Sequence[str] = ()
    ttl: int | None = None
    output: MountedStorage | None = None
    code: MountedStorage | None = None
