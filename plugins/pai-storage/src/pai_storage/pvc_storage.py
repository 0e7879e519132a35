"""The plugin ``com.microsoft.pai.runtimeplugin.pvc_storage``: a storage of the cluster."""

from pai_runtime.plugin import Contribution, Task, Use, hookimpl
from pai_storage.mounting import contribution, named_storage


class NoName(Exception):
    """A use that does not say which storage it wants."""


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:  # noqa: ARG001 - pluggy matches by name
    """The storage that it names; by default the one with the prerequisite's own name."""
    given = use.parameters
    if "name" not in given and use.name == use.plugin.rpartition(".")[2]:  # as those in extras are called
        raise NoName("parameters.name is missing: the name of the storage")
    return contribution(
        named_storage(
            given.get("name", use.name),
            given.get("mountPath"),
            share=given.get("share", True),
            read_only=given.get("readOnly", False),
        )
    )
