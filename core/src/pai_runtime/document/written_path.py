"""Paths that are written in files."""

from pathlib import Path

from pai_runtime.document.value import Value


def written_path(value: Value) -> Path:
    """A path as it is written in a file, relative to that file; ``~`` is a home directory."""
    try:
        path = Path(value.text).expanduser()
    except RuntimeError:  # there is no such user
        path = Path(value.text)
    return Path(value.position.file).absolute().parent / path
