"""Typed parts of a document; what its schema refuses is treated as missing."""

from collections.abc import Iterator

from pai_runtime.document.value import Value


def mapping(value: Value | None, key: str) -> Value | None:
    """A field that is a mapping."""
    child = value.get(key) if value else None
    return child if child is not None and isinstance(child.data, dict) else None


def children(value: Value | None, key: str) -> Iterator[Value]:
    """What is in a field that is a list."""
    child = value.get(key) if value else None
    if child is not None and isinstance(child.data, list):
        yield from child.values()


def parameters(prerequisite: Value) -> Value | None:
    """What is for a prerequisite's plugin, by either of its names."""
    return mapping(prerequisite, "parameters") or mapping(prerequisite, "plugin_params")


def mappings(value: Value | None, key: str) -> Iterator[Value]:
    """The mappings in a field that is a list."""
    return (child for child in children(value, key) if isinstance(child.data, dict))


def strings(value: Value | None, key: str) -> tuple[Value, ...]:
    """The strings in a field that is a list."""
    return tuple(child for child in children(value, key) if isinstance(child.data, str))


def names(value: Value | None, key: str) -> tuple[Value, ...]:
    """The names in a field that is a list, whose items are names, or mappings that have one as ``name``."""
    found = (
        child if isinstance(child.data, str) else string(child, "name") for child in children(value, key)
    )
    return tuple(name for name in found if name is not None)


def string(value: Value | None, key: str) -> Value | None:
    """A field that is a string, and not an empty one."""
    child = value.get(key) if value else None
    return child if child is not None and isinstance(child.data, str) and child.data else None


def text(value: Value | None, key: str) -> str:
    """The same as plain text; empty if there is none."""
    child = string(value, key)
    return child.text if child else ""


def whole(value: Value | None, key: str) -> int | None:
    """A field that is a whole number."""
    child = value.get(key) if value else None
    match child.data if child else None:
        case bool():
            return None
        case int(number):
            return number
        case float(number) if number.is_integer():  # as in JSON Schema, 2.0 is a whole number
            return int(number)
    return None
