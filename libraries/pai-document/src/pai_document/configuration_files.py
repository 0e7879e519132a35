"""Configuration files, the user's before the machine's, and the paths that stand in them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pai_document.document import read_document
from pai_document.problems import Problems
from pai_document.value import Value


class Named(Protocol):
    """An entry of a configuration file, identified by its name."""

    @property
    def name(self) -> str:
        """The name that identifies the entry, across files."""


_N = TypeVar("_N", bound=Named)


def user_file(name: str) -> Path | None:
    """Return the path of the user's configuration file of this name; None without a home directory."""
    own = user_directory("XDG_CONFIG_HOME", ".config")
    return own and own / name


def configuration_files(machine: Path) -> Sequence[Path]:
    """List the paths of a configuration file by precedence: the user's, then the `machine`'s.

    They need not exist.
    """
    return [path for path in (user_file(machine.name), machine) if path]


def read_named(paths: Iterable[Path], named_in: Callable[[Value], Iterable[_N]]) -> Mapping[str, _N]:
    """Read the entries of all files that exist, by name; the first entry of a name takes precedence.

    `named_in` extracts the entries from the root of one file. Raises `InvalidInput` with the problems of all
    files.
    """
    problems, found = Problems(), dict[str, _N]()
    for path in paths:
        if path.exists() or path.is_symlink():
            with problems.caught():
                for each in named_in(read_document(path)):
                    found.setdefault(each.name, each)
    problems.check()
    return found


def user_directory(variable: str, usual: str) -> Path | None:
    """Return ``pai-runtime`` below the directory in `variable`, or below ``~/usual``; None without a home."""
    base = Path(os.environ.get(variable, ""))
    try:
        base = base if base.is_absolute() else Path.home() / usual
    except RuntimeError:
        return None
    return base / "pai-runtime"


def written_path(value: Value) -> Path:
    """Return the path in a value, resolved against the directory of its file; ``~`` is expanded."""
    try:
        path = Path(value.text).expanduser()
    except RuntimeError:  # there is no such user
        path = Path(value.text)
    return Path(value.position.file).absolute().parent / path
