"""The plugin ``com.microsoft.pai.rest.storage``, for a storage as prerequisites first proposed it."""

from pai_runtime.plugin import Contribution, Task, Use, hookimpl
from pai_storage.mounting import contribution, named_storage, public_parameters


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute the mount of the named storage."""
    given = public_parameters(use)
    return contribution(named_storage(task, given["config"], given.get("mountPoint")))
