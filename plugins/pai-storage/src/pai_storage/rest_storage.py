"""The plugin ``com.microsoft.pai.rest.storage``: a storage, as the first proposal of prerequisites had it."""

from pai_runtime.plugin import Contribution, Task, Use, hookimpl
from pai_storage.mounting import contribution, named_storage, public_parameters


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """The storage that it names."""
    given = public_parameters(use)
    return contribution(named_storage(task, given["config"], given.get("mountPoint")))
