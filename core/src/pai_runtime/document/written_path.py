"""Paths in configuration files."""

from pathlib import Path

from pai_runtime.document.value import Value


def written_path(value: Value) -> Path:
    """Return the path in a value, resolved against the directory of its file; ``~`` is expanded."""
    try:
        path = Path(value.text).expanduser()
    except RuntimeError:  # there is no such user
        path = Path(value.text)
    return Path(value.position.file).absolute().parent / path
