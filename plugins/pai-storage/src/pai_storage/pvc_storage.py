"""The plugin ``com.microsoft.pai.runtimeplugin.pvc_storage``, for a storage of the cluster."""

from pai_runtime.plugin import Contribution, Task, Use, UserError, hookimpl
from pai_storage.mounting import contribution, named_storage, public_parameters


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute the mount of the named storage; its default name is the prerequisite's."""
    given = public_parameters(use)
    if "name" not in given and use.name == use.plugin.rpartition(".")[2]:  # as those in extras are called
        raise UserError("parameters.name is missing: the name of the storage")
    return contribution(
        named_storage(
            task,
            given.get("name", use.name),
            given.get("mountPath"),
            share=given.get("share", True),
            read_only=given.get("readOnly", False),
        )
    )
