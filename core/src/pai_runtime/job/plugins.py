"""What a job has to know of plugins, as their manifests declare it."""

from collections.abc import Callable, Mapping

from pai_document.problems import Problems
from pai_document.value import Value
from pai_runtime.job.reading import parameters
from pai_task.record import record


@record(frozen=True)
class StorageFields:
    """The fields in which a use of a storage plugin names the storage and its mount path."""

    name: str
    mount_path: str


@record(frozen=True)
class JobPlugins:
    """Lookups of plugins by their purpose; plugins are consulted only as far as the job needs them.

    `storage_fields` of a plugin's id is None for one that is not for storage; `ports` of an id are how many
    ports a task that uses it has by label. `for_storages` is the id of the one for what ``extras.storages``
    and ``requireStorages`` list, `for_callbacks` that of a prerequisite that has callbacks and names no
    plugin. `namesake` is the short name of the plugin that is called so, in whatever case, if there is
    one and such a field of ``extras`` has no effect.
    `in_version_2` gives the job of a document without ``protocolVersion`` whose format a plugin knows, and
    any other document as it is. It raises `InvalidInput`.
    """

    storage_fields: Callable[[str], StorageFields | None]
    ports: Callable[[str], Mapping[str, int]]
    for_storages: Callable[[], str]
    for_callbacks: Callable[[], str]
    namesake: Callable[[str], str | None]
    in_version_2: Callable[[Value, Problems], Value]


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
