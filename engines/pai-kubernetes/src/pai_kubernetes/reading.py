"""Reading of engine profiles for Kubernetes from ``engines.yaml``."""

from collections.abc import Mapping
from typing import Any, Final

from pai_kubernetes.profile import KubernetesProfile, MountedStorage, SkuType, Storage, VirtualCluster
from pai_pod.engine import BadReference, parse_reference
from pai_runtime.engine import Problems, Profile, Value
from pai_runtime.engine.documents import check_value, package_schema, text, written_path

_KINDS: Final = ("claim", "nfs", "hostPath")
_GPU: Final = "nvidia.com/gpu"


def read_profile(profile: Profile) -> KubernetesProfile:
    """Return the content of a profile. Raises `InvalidInput` with all of its problems."""
    root, problems = profile.value, Problems()
    check_value(root, package_schema("pai_kubernetes", "profile.schema.json"), problems)
    problems.check()
    _check_image(root.get("runtimeImage"), problems)
    gpu_resource = text(root, "gpuResource") or _GPU
    storages = {str(each.key): _storage(each, problems) for each in _items(root, "storages")}
    clusters = {str(each.key): _virtual_cluster(each, problems) for each in _items(root, "virtualClusters")}
    sku_types = {str(each.key): _sku_type(each, gpu_resource) for each in _items(root, "skuTypes")}
    output = _mounted(root.get("output"), storages, problems)
    code = _mounted(root.get("code"), storages, problems)
    problems.check()
    kubeconfig = root.get("kubeconfig")
    return KubernetesProfile(
        name=profile.name,
        runtime_image=text(root, "runtimeImage"),
        delivery=root.data.get("delivery", "copy"),
        context=text(root, "context"),
        kubeconfig=str(written_path(kubeconfig)) if kubeconfig else "",
        namespace=text(root, "namespace"),
        storages=storages,
        virtual_clusters=clusters if root.get("virtualClusters") else None,
        gpu_resource=gpu_resource,
        sku_types=sku_types,
        runtime_image_at=root.at(("runtimeImage",)),
        image_pull_policy=text(root, "imagePullPolicy") or "IfNotPresent",
        image_pull_secrets=root.data.get("imagePullSecrets", ()),
        ttl=root.data.get("ttlSecondsAfterFinished"),
        output=output,
        code=code,
    )


def _check_image(image: Value | None, problems: Problems) -> None:
    try:
        parse_reference(image.text if image else "")
    except BadReference as error:
        problems.add(*([image.problem("wrong-image", str(error))] if image else ()))


def _storage(value: Value, problems: Problems) -> Storage:
    kinds = [kind for kind in _KINDS if value.get(kind)]
    if len(kinds) != 1:
        expected, found = "one of claim, nfs and hostPath", " and ".join(kinds) or "none of them"
        message = f"expected {expected}, found {found}"
        problems.add(value.problem("wrong-storage", message, found=found, expected=expected))
    export = value.get("nfs") or value
    return Storage(
        name=str(value.key),
        claim=text(value, "claim"),
        nfs_server=text(export, "server"),
        nfs_path=text(export, "path"),
        host_path=text(value, "hostPath"),
        sub_path=text(value, "subPath"),
        read_only=value.data.get("readOnly", False),
    )


def _mounted(
    value: Value | None, storages: Mapping[str, Storage], problems: Problems
) -> MountedStorage | None:
    """Return the storage of `output` or `code`; None if there is none, or it is not fit for that."""
    if value is None:
        return None
    name = text(value, "storage")
    storage = storages.get(name)
    fault = ""
    if storage is None:
        fault = "the profile has no such storage"
    elif storage.read_only and value.key == "output":
        fault = "it is read-only; tasks could not leave their output there"
    elif "%" in storage.sub_path:
        fault = "its subPath is not the same for all jobs; expected one without %USER and %JOB"
    if storage is None or fault:
        at = value.get("storage") or value
        meant = problems.suggestions.near_miss(name, storages) if storage is None else None
        problems.add(at.problem(f"wrong-{value.key}", fault, found=name, suggestion=meant))
        return None
    return MountedStorage(storage, text(value, "mountedAt"))


def _virtual_cluster(value: Value, problems: Problems) -> VirtualCluster:
    given: Mapping[str, Any] = value.data or {}
    workload_class = value.get("workloadPriorityClass")
    if workload_class and "queue" not in given:
        message = "has no effect without a queue, since Kueue orders its queues by it; add the field queue"
        problems.add(workload_class.problem("no-queue", message))
    return VirtualCluster(
        name=str(value.key),
        queue=given.get("queue", ""),
        priority_class=given.get("priorityClass", ""),
        workload_priority_class=given.get("workloadPriorityClass", ""),
        node_selector=given.get("nodeSelector", {}),
        tolerations=given.get("tolerations", ()),
    )


def _sku_type(value: Value, gpu_resource: str) -> SkuType:
    given: Mapping[str, Any] = value.data or {}
    return SkuType(str(value.key), given.get("gpuResource", gpu_resource), given.get("nodeSelector", {}))


def _items(root: Value, key: str) -> list[Value]:
    found = root.get(key)
    return list(found.values()) if found else []
