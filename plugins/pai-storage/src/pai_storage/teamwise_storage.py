"""The plugin ``com.microsoft.pai.runtimeplugin.teamwise_storage``: the older way to ask for storages."""

from pai_runtime.plugin import Contribution, Task, Use, hookimpl
from pai_storage.mounting import contribution, named_storage


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Each storage that it names, at its usual place."""
    return contribution(*(named_storage(task, name) for name in use.parameters["storageConfigNames"]))
