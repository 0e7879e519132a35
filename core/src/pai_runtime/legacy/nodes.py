"""Fields of a job of version 1, and new values at their positions."""

from typing import Any

from pai_runtime.document.value import Node, Value


def new_node(where: Node, content: Any) -> Node:
    """Return a new value at the position of another node; nodes inside it keep their own positions."""
    if isinstance(content, Node):
        return content
    children: dict[str | int, Node] = {}
    data = content
    if isinstance(content, dict):
        children = {key: new_node(where, each) for key, each in content.items()}
        data = {key: child.data for key, child in children.items()}
    elif isinstance(content, list):
        children = {index: new_node(where, each) for index, each in enumerate(content)}
        data = [child.data for child in children.values()]
    is_scalar = not isinstance(content, (dict, list))
    node = Node(where.source, where.start, where.end, data, str(content) if is_scalar else "")
    if isinstance(content, dict):
        node.keys = {key: child.start for key, child in children.items()}
    node.children = children
    node.size += sum(child.size for child in children.values())
    return node


def required(value: Value, key: str) -> Value:
    """Return a field that the check has found. Raises KeyError if it is missing after all."""
    found = value.get(key)
    if found is None:
        raise KeyError(key)
    return found


def not_null(value: Value, key: str) -> Value | None:
    """Return a field; None if it is missing or null."""
    found = value.get(key)
    return found if found and found.data is not None else None


def items(value: Value, key: str) -> list[Value]:
    """Return the items of a field; empty if it is not a list."""
    found = value.get(key)
    return list(found.values()) if found and isinstance(found.data, list) else []
