"""An engine profile of Kubernetes, typed."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pai_runtime.document.problems import Location
from pai_runtime.task.record import field, record

Delivery = Literal["copy", "imageVolume"]


@record(frozen=True)
class Storage:
    """One of the cluster's storages: exactly one of a claim, an NFS export and a directory of the nodes.

    `sub_path` is the directory in it that counts as its root; ``%USER`` and ``%JOB`` in it, in any case,
    stand for the user and the name of the job.
    """

    name: str
    claim: str = ""
    nfs_server: str = ""
    nfs_path: str = ""
    host_path: str = ""
    sub_path: str = ""
    read_only: bool = False


@record(frozen=True)
class VirtualCluster:
    """What a virtual cluster means: a local queue of Kueue, and how important and where its pods are.

    `priority_class` is the pods' own, a PriorityClass of Kubernetes; Kueue orders its queue by it too, unless
    there is a `workload_priority_class`, which is a WorkloadPriorityClass of Kueue and of no meaning to pods.
    """

    name: str
    queue: str = ""
    priority_class: str = ""
    workload_priority_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()


@record(frozen=True)
class SkuType:
    """What a `skuType` of ``extras.hivedScheduler`` means: the resource of its GPUs, and on which nodes."""

    name: str
    gpu_resource: str
    node_selector: Mapping[str, str] = field(default_factory=dict)


@record(frozen=True)
class KubernetesProfile:
    """How a Kubernetes cluster is used.

    `runtime_image_at`: where the image is written. `ttl`: seconds after which a run that is over is removed.

    `context` and `namespace` are empty where those of the kubeconfig count, `kubeconfig` where
    ``$KUBECONFIG`` or ``~/.kube/config`` does. `virtual_clusters` None: any is right, and means nothing.
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
