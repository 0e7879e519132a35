"""The plugin ``com.microsoft.pai.runtimeplugin.teamwise_storage``, the older way to request storages."""

from pai_runtime.plugin import Contribution, Task, Use, hookimpl
from pai_storage.mounting import contribution, named_storage, public_parameters

_NO_EFFECT = (
    "nothing is mounted: without storageConfigNames it means the user's default storage, unknown here"
)


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute the mounts of all named storages at their default paths."""
    names = public_parameters(use).get("storageConfigNames")
    if not names:
        return Contribution(warnings=[_NO_EFFECT])
    return contribution(*(named_storage(task, name) for name in names))
