"""Typed access to fields of a document; a value of the wrong type counts as missing."""

from collections.abc import Iterator

from pai_document.value import Value


def mapping(value: Value | None, key: str) -> Value | None:
    """Return a field that is a mapping; None if it is missing or something else."""
    child = value.get(key) if value else None
    return child if child is not None and isinstance(child.data, dict) else None


def children(value: Value | None, key: str) -> Iterator[Value]:
    """Yield the items of a field that is a list."""
    child = value.get(key) if value else None
    if child is not None and isinstance(child.data, list):
        yield from child.values()


def parameters(prerequisite: Value) -> Value | None:
    """Return the ``parameters`` of a prerequisite, or its ``plugin_params``; None without either."""
    return mapping(prerequisite, "parameters") or mapping(prerequisite, "plugin_params")


def mappings(value: Value | None, key: str) -> Iterator[Value]:
    """Yield the items that are mappings of a field that is a list."""
    return (child for child in children(value, key) if isinstance(child.data, dict))


def strings(value: Value | None, key: str) -> tuple[Value, ...]:
    """Return the items that are strings of a field that is a list."""
    return tuple(child for child in children(value, key) if isinstance(child.data, str))


def names(value: Value | None, key: str) -> tuple[Value, ...]:
    """Return the names in a field that is a list of names, or of mappings with a ``name``."""
    found = (
        child if isinstance(child.data, str) else string(child, "name") for child in children(value, key)
    )
    return tuple(name for name in found if name is not None)


def string(value: Value | None, key: str) -> Value | None:
    """Return a field that is a non-empty string; None if it is missing or something else."""
    child = value.get(key) if value else None
    return child if child is not None and isinstance(child.data, str) and child.data else None


def text(value: Value | None, key: str) -> str:
    """Return the text of a field that is a string; empty if it is missing or something else."""
    child = string(value, key)
    return child.text if child else ""


def whole(value: Value | None, key: str) -> int | None:
    """Return a field that is a whole number, such as 2 or 2.0; None if it is missing or something else."""
    child = value.get(key) if value else None
    match child.data if child else None:
        case bool():
            return None
        case int(number):
            return number
        case float(number) if number.is_integer():  # as in JSON Schema, 2.0 is a whole number
            return int(number)
    return None
