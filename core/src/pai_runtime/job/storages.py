"""Storages in jobs: their default mount paths, for ``this.mountPath``."""

from collections.abc import Callable

from pai_runtime.document.document import Value
from pai_runtime.task.record import record


@record(frozen=True)
class StorageFields:
    """In which fields the uses of a plugin for storage say which one they mean, and where it is mounted."""

    name: str
    mount_path: str


@record(frozen=True)
class StoragePlugins:
    """What a job has to know of plugins for storage, each of which says it of itself.

    `fields_of` a plugin's id is None for one that is not for storage; `for_extras` is the id of the one for
    what ``extras.storages`` and ``requireStorages`` list. Both are asked only about what is in the job.
    """

    fields_of: Callable[[str], StorageFields | None]
    for_extras: Callable[[], str]


def with_mount_path(value: Value, fields: StorageFields) -> Value:
    """A prerequisite that is a storage, which says where it is mounted: ``/mnt/<name>`` by default."""
    own = value.node.children
    below = value.node.children["parameters"].children if "parameters" in own else {}
    name = below.get(fields.name) or own.get(fields.name) or own.get("name")
    if name is None or not isinstance(name.data, str) or fields.mount_path in {**own, **below}:
        return value
    path = f"/mnt/{name.data}"
    children = {**own, fields.mount_path: name.replaced(path, path)}
    return Value(value.node.replaced(value.data, children=children), value.above, value.key)
