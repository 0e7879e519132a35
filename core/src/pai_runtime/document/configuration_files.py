"""Configuration files, the user's before the machine's, and the paths that stand in them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pai_runtime.document.document import read_document
from pai_runtime.document.problems import Problems
from pai_runtime.document.value import Value


class Named(Protocol):
    """What such files list."""

    @property
    def name(self) -> str:
        """By which it is known, whichever file it is in."""


_N = TypeVar("_N", bound=Named)


def user_file(name: str) -> Path | None:
    """The user's file of this name; None without a home directory."""
    own = user_directory("XDG_CONFIG_HOME", ".config")
    return own and own / name


def configuration_files(machine: Path) -> Sequence[Path]:
    """The `machine`'s file and, before it, the user's of the same name; they need not exist."""
    return [path for path in (user_file(machine.name), machine) if path]


def read_named(paths: Iterable[Path], named_in: Callable[[Value], Iterable[_N]]) -> Mapping[str, _N]:
    """What is in those of the files that exist, in order; raises `InvalidInput` with all problems.

    `named_in` reads the root of one file. Of several with the same name the first counts.
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
    """Ours below the one in a variable, or below the `usual` one; None without a home directory."""
    base = Path(os.environ.get(variable, ""))
    try:
        base = base if base.is_absolute() else Path.home() / usual
    except RuntimeError:
        return None
    return base / "pai-runtime"


def written_path(value: Value) -> Path:
    """A path as it is written in a file, relative to that file; ``~`` is a home directory."""
    try:
        path = Path(value.text).expanduser()
    except RuntimeError:  # there is no such user
        path = Path(value.text)
    return Path(value.position.file).absolute().parent / path
