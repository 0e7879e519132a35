"""Storage as jobs write it: where one is mounted that does not say so, for ``this.mountPath``."""

from dataclasses import replace

from pai_runtime.document.document import Node

PLUGIN = "com.microsoft.pai.runtimeplugin.pvc_storage"
"""The plugin of what ``extras.storages`` and ``requireStorages`` list."""

_NAME_AND_PATH = {
    PLUGIN: ("name", "mountPath"),
    "com.microsoft.pai.runtimeplugin.storage": ("name", "mountPath"),
    "com.microsoft.pai.rest.storage": ("config", "mountPoint"),
}


def with_mount_path(plugin: str | None, node: Node) -> Node:
    """A prerequisite which, if it is a storage, says where it is mounted: ``/mnt/<name>`` by default."""
    if plugin not in _NAME_AND_PATH or not isinstance(node.data, dict):
        return node
    name_field, path_field = _NAME_AND_PATH[plugin]
    parameters = node.children.get("parameters")
    written = parameters.children if parameters else {}
    name = written.get(name_field) or node.children.get(name_field) or node.children.get("name")
    if name is None or not isinstance(name.data, str) or path_field in {**node.children, **written}:
        return node
    path = f"/mnt/{name.data}"
    return replace(node, children={**node.children, path_field: replace(name, data=path, text=path)})
