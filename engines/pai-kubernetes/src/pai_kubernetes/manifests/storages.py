"""The mounts of a task as volumes of its pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from pai_kubernetes.profile import KubernetesProfile, Storage
from pai_runtime.engine import CannotRun, Plan
from pai_runtime.engine.jobs import UseRecord
from pai_runtime.plugin import Mount, with_user_and_job


@dataclass(frozen=True)
class StorageVolumes:
    """The volumes of a pod and their mounts; `uses` has for each volume its use and its source."""

    volumes: Sequence[Mapping[str, Any]]
    mounts: Sequence[Mapping[str, Any]]
    uses: Sequence[tuple[UseRecord, str]]


def storage_volumes(plan: Plan, job: str, user: str, profile: KubernetesProfile) -> StorageVolumes:
    """Return the storages of a task.

    Raises `CannotRun` for an unknown one, unless its use ignores failures.
    """
    names: dict[Storage, str] = {}
    volumes, uses = [], []
    mounts: dict[str, dict[str, Any]] = {}
    for planned in plan.mounts:
        mount = planned.mount
        storage = _storage(mount, profile)
        if storage is None:
            use = plan.uses[planned.use]
            if use.failure_policy == "ignore":
                continue
            message = f"the storage '{mount.source}', mounted at {mount.path} for {use.label}"
            raise CannotRun(f"{message}: the engine profile '{profile.name}' has no such storage")
        if storage not in names:
            names[storage] = f"storage-{len(names)}"
            volumes.append({"name": names[storage], **storage_volume(storage)})
            uses.append((plan.uses[planned.use], mount.source))
        mounts[mount.path] = _mount(mount, storage, names[storage], job, user)
    return StorageVolumes(volumes, list(mounts.values()), uses)


def _storage(mount: Mount, profile: KubernetesProfile) -> Storage | None:
    """Return the storage of a mount; an NFS export that the profile does not name is mounted as it is."""
    if mount.source in profile.storages:
        return profile.storages[mount.source]
    if mount.kind != "nfs":
        return None
    server, _, path = mount.source.partition(":/")
    return Storage(mount.source, nfs_server=server, nfs_path=f"/{path}")


def storage_volume(storage: Storage) -> dict[str, Any]:
    """Return the source of a storage's volume."""
    if storage.claim:
        return {"persistentVolumeClaim": {"claimName": storage.claim}}
    if storage.nfs_server:
        return {"nfs": {"server": storage.nfs_server, "path": storage.nfs_path}}
    # Not made where it is missing: an empty directory of the node would look like the storage.
    return {"hostPath": {"path": storage.host_path, "type": "Directory"}}


def _mount(mount: Mount, storage: Storage, volume: str, job: str, user: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": volume, "mountPath": mount.path}
    parts = (with_user_and_job(storage.sub_path, user, job), mount.sub_path)
    if sub_path := "/".join(part.strip("/") for part in parts if part):
        fields["subPath"] = normpath(sub_path)
    if mount.read_only or storage.read_only:
        fields["readOnly"] = True
    return fields
