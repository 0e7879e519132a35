"""Lookup of files that a platform mounts into a pod, in any of the ways in which it does.

A ConfigMap or Secret may be mounted by its keys, so that the path is a file, or as a whole, so that it is a
directory which has the file, or one file for each key.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pai_document.document import read_document
from pai_document.problems import InvalidInput, Position, Problem
from pai_document.value import Node, Source, Value
from pai_pod.directories import Directories
from pai_pod.unfolding import parse_unfolded
from pai_task.regular_file import open_regular

_MOST_BYTES = 4 * 1024 * 1024


def find_file(folders: Iterable[Path], *names: str) -> Path | None:
    """Return the first file that has one of the names, or its counterpart in a directory of that name.

    The counterpart is the file in it of one of the names, or the only one, or else the directory.
    """
    for path in (folder / name for folder in folders for name in names):
        if not path.is_dir():
            if path.exists():
                return path
            continue
        keys = _keys(path)
        named = [path / name for name in names if name in keys]
        return named[0] if named else path / keys[0] if len(keys) == 1 else path
    return None


def given_document(
    environment: Mapping[str, str], variable: str, directories: Directories, file: str
) -> Value | None:
    """Return the document in a variable, else in a file of the configuration; None without either.

    Raises `InvalidInput`.
    """
    if text := environment.get(variable, "").strip():
        return parse_unfolded(text, variable)
    path = find_file(directories.configs, file)
    return None if path is None else read_document(path)


def read_keys(folder: Path) -> Value:
    """Return a mapping from the names of a directory's files to their texts. Raises `InvalidInput`."""
    texts = {name: read_text(folder / name) for name in _keys(folder)}
    source = Source(str(folder), "")
    node = Node(source, 0, 0, texts)
    node.children = {name: Node(source, 0, 0, text, text) for name, text in texts.items()}
    return Value(node)


def read_text(path: Path) -> str:
    """Read a text file. Raises `InvalidInput` if it is unreadable, too large or invalid UTF-8."""
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise _unreadable(path, f"expected at most {_MOST_BYTES} bytes, found more")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _unreadable(path, "invalid UTF-8") from None
    if "\0" in text:
        raise _unreadable(path, "the character NUL is not allowed here")
    return text


def _keys(folder: Path) -> list[str]:
    """Return the names of the keys, without Kubernetes' own links such as ``..data``."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".."))


def _unreadable(path: Path, message: str) -> InvalidInput:
    return InvalidInput([Problem("unreadable", message, Position(str(path)))])
