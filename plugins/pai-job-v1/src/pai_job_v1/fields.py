"""Fields of a job of version 1."""

from pai_runtime.plugin.job_format import Value


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
