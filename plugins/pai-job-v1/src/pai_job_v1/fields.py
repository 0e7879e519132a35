"""Fields of a job of version 1."""

from pai_runtime.plugin.job_format import Value


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
