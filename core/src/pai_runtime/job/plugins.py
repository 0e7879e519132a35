"""What a job has to know of plugins, as their manifests declare it."""

from collections.abc import Callable

from pai_runtime.task.record import record


@record(frozen=True)
class StorageFields:
    """The fields in which a use of a storage plugin names the storage and its mount path."""

    name: str
    mount_path: str


@record(frozen=True)
class JobPlugins:
    """Lookups of plugins by their purpose; plugins are consulted only as far as the job needs them.

    `storage_fields` of a plugin's id is None for one that is not for storage. `for_storages` is the id of the
    one for what ``extras.storages`` and ``requireStorages`` list, `for_callbacks` that of a prerequisite that
    has callbacks and names no plugin. `namesake` is the short name of the plugin that is called so, in
    whatever case, if there is one.
    """

    storage_fields: Callable[[str], StorageFields | None]
    for_storages: Callable[[], str]
    for_callbacks: Callable[[], str]
    namesake: Callable[[str], str | None]
