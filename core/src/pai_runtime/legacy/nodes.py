"""Fields of a job of version 1, and the values that are made of them."""

from typing import Any

from pai_runtime.document.value import Node, Value


def new_node(where: Node, content: Any) -> Node:
    """A new value that stands where another one does; nodes in it stay where they are."""
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
    """A field that the check has found."""
    found = value.get(key)
    if found is None:
        raise KeyError(key)
    return found


def not_null(value: Value, key: str) -> Value | None:
    """A field that is not null."""
    found = value.get(key)
    return found if found and found.data is not None else None


def items(value: Value, key: str) -> list[Value]:
    """What is in a field, if it is a list."""
    found = value.get(key)
    return list(found.values()) if found and isinstance(found.data, list) else []
