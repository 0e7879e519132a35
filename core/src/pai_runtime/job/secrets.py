"""The secrets of a job: their values for the supervisor, and their placeholders for everybody else."""

from collections.abc import Mapping
from dataclasses import replace

from pai_runtime.document import DocumentPath, Node, walk
from pai_runtime.task.placeholders import placeholder


def secret_values(secrets: Mapping[str, Node]) -> dict[str, str]:
    """Every secret as text, by its path: names and list indexes joined by dots."""
    return {
        _path(path): node.text for name, secret in secrets.items() for path, node in walk(secret, (name,))
    }


def as_placeholders(secrets: Mapping[str, Node]) -> dict[str, Node]:
    """The same secrets with a placeholder in the place of each value."""
    return {name: _placeholders(secret, (name,)) for name, secret in secrets.items()}


def _placeholders(node: Node, path: DocumentPath) -> Node:
    if not isinstance(node.data, (dict, list)):
        text = placeholder(_path(path))
        return replace(node, data=text, text=text)
    children = {key: _placeholders(child, (*path, key)) for key, child in node.children.items()}
    data = (
        [child.data for child in children.values()]
        if isinstance(node.data, list)
        else {key: child.data for key, child in children.items()}
    )
    return replace(node, data=data, children=children)


def _path(path: DocumentPath) -> str:
    return ".".join(str(part).replace(".", "\\.") for part in path)
