"""What installers have left on the search path: distributions in ``.dist-info`` folders, and nothing else.

`importlib_metadata` finds more kinds. Its import takes longer than a hook, and code that a plan can name by
a digest is listed in the ``RECORD`` of such a folder.
"""

import io
import os.path
import sys
from collections.abc import Iterator

from pai_runtime.host.code import GROUP, Code
from pai_runtime.host.metadata import normalized, text
from pai_runtime.host.regular_file import open_regular

_SUFFIX = ".dist-info"


class DistInfo:
    """A distribution, as `Code` needs it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def locate_file(self, name: str) -> str:
        """The path of a file below its import path."""
        return os.path.join(os.path.dirname(self._path), name)  # noqa: PTH118, PTH120 - pathlib takes longer

    def read_text(self, name: str) -> str | None:
        """A file of its metadata; None where there is none that can be read."""
        try:
            with io.TextIOWrapper(open_regular(os.path.join(self._path, name)), "utf-8") as file:  # noqa: PTH118
                return file.read()
        except OSError:
            return None


def installed(distribution: str) -> Code:
    """The code of a distribution; raises LookupError, also if two of them in one folder have its name."""
    wanted = normalized(distribution)
    for folder in dict.fromkeys(sys.path):
        found = [name for name in _names(folder) if normalized(name.partition("-")[0]) == wanted]
        if len(found) > 1:
            raise LookupError(f"{folder} has two distributions {distribution}: {', '.join(found)}")
        if found:
            return Code(DistInfo(os.path.join(folder, *found)))  # noqa: PTH118
    raise LookupError(f"no distribution {distribution} is installed")


def with_plugins() -> Iterator[Code]:
    """The code of every distribution that brings a plugin."""
    for folder in dict.fromkeys(sys.path):
        for name in _names(folder):
            distribution = DistInfo(os.path.join(folder, name))  # noqa: PTH118
            if GROUP in (text(distribution, "entry_points.txt") or ""):
                yield Code(distribution)


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(_SUFFIX)]  # noqa: PTH208
    except OSError:
        return []
