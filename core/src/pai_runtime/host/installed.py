"""The installed distributions that `importlib_metadata` finds: in directories, archives, or by other finders.

`pai_runtime.host.hook_runner` loads this module only for what it does not find itself: people wait for it.
"""

import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import importlib_metadata

from pai_runtime.host.code import GROUP, Code, sole
from pai_runtime.host.metadata import Distribution, with_group

_MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of a file in an archive, where a small one can stand for any number of bytes."""


class _InArchive(Distribution):
    """A distribution in a zip archive on the search path, which is its `folder`."""

    def open(self, path: str) -> BinaryIO:
        """Open the file with this path, below that of the archive. Raises OSError."""
        from zipfile import ZipFile  # noqa: PLC0415 - slow, and hardly ever needed

        try:
            with (
                super().open(self.folder) as stream,
                ZipFile(stream) as archive,
                archive.open(os.path.relpath(path, self.folder)) as file,
            ):
                data = file.read(_MOST_BYTES + 1)
        except Exception as error:  # noqa: BLE001 - `zipfile` and its decoders raise whatever they like
            raise OSError(0, f"{type(error).__name__}: {error}", path) from None
        if len(data) > _MOST_BYTES:
            raise OSError(0, f"it has more than {_MOST_BYTES} bytes", path)
        return io.BytesIO(data)


class _OfFinder(Distribution):
    """A distribution of which only the finder that brings it knows where its metadata are."""

    def __init__(self, found: importlib_metadata.Distribution, folder: str) -> None:
        super().__init__(folder, "")
        self._found = found

    def read_text(self, file: str) -> str | None:
        """Return the text of a metadata file; None if there is none, or it cannot be read."""
        try:
            return self._found.read_text(file)
        except Exception:  # noqa: BLE001 - code of others, which spoils only its own
            return None


def distributions(name: str | None = None) -> list[Distribution]:
    """Return every installed distribution, or those of a name, in the order of the search path."""
    # A missing entry, such as that of Python's own archive, is looked for as an archive: zipfile takes long.
    path = [entry for entry in dict.fromkeys(sys.path) if Path(entry).exists()]
    found = importlib_metadata.distributions(path=path, **({} if name is None else {"name": name}))
    places: dict[str, int] = {}
    # Those of one directory come in the order of its entries on the disk.
    return sorted(
        map(_distribution, found),
        key=lambda each: (places.setdefault(each.folder, len(places)), each.info),
    )


def distributions_with(group: str) -> Iterable[Distribution]:
    """Return every installed distribution that has entry points in a group; see `with_group`."""
    return with_group(distributions(), group)


def plugin_codes() -> Iterable[Code]:
    """Yield the code of every installed distribution with plugins."""
    return map(Code, distributions_with(GROUP))


def installed_code(name: str) -> Code:
    """Return the code of an installed distribution.

    Raises LookupError if there is none, or two in one folder.
    """
    return sole(name, distributions(name))


def _distribution(found: importlib_metadata.Distribution) -> Distribution:
    # Not public, because not every finder has it; without it, nothing says what kind of file is to be opened.
    path = getattr(found, "_path", None)
    if isinstance(path, Path):
        return Distribution(str(path.parent), path.name)
    try:
        folder = str(found.locate_file("")).rstrip("/")
    except Exception:  # noqa: BLE001 - as above; it may not have files at all
        folder = ""
    if path is not None and Path(folder).is_file():
        return _InArchive(folder, path.name)
    return _OfFinder(found, folder)
