"""Default mount paths of storages, for ``this.mountPath``."""

from pai_runtime.document.value import Value
from pai_runtime.job.plugins import StorageFields
from pai_runtime.job.reading import parameters


def with_mount_path(value: Value, fields: StorageFields) -> Value:
    """Return a storage prerequisite with its mount path, ``/mnt/<name>`` by default."""
    own = value.node.children
    given = parameters(value)
    below = given.node.children if given else {}
    name = below.get(fields.name) or own.get(fields.name) or own.get("name")
    if name is None or not isinstance(name.data, str) or fields.mount_path in {**own, **below}:
        return value
    path = f"/mnt/{name.data}"
    children = {**own, fields.mount_path: name.replaced(path, path)}
    return Value(value.node.replaced(value.data, children=children), value.above, value.key)
