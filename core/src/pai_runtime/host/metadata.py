"""What stands in the metadata of a distribution.

It is read here, and not by `importlib_metadata` (which finds the distributions, see
`pai_runtime.host.installed`), for the process of a hook too: there that would take longer than the hook. And
one invalid line does not hide the others.
"""

from __future__ import annotations

import os
import re
import sys

from pai_task.fast_json import loads
from pai_task.regular_file import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO, Literal, TypeAlias

    Origin: TypeAlias = Literal["index", "path", "editable"]


class Distribution:
    """A distribution in a directory on the search path, and there the name of its metadata directory."""

    def __init__(self, folder: str, info: str) -> None:
        self.folder = folder
        self.info = info

    def read_text(self, file: str) -> str | None:
        """Return the text of a metadata file; None if there is none. Raises UnicodeDecodeError."""
        try:
            with self.open(os.path.join(self.folder, self.info, file)) as stream:  # noqa: PTH118 - much faster
                data = stream.read()
        except OSError:
            return None
        return data.decode().replace("\r\n", "\n").replace("\r", "\n")

    def open(self, path: str) -> BinaryIO:
        """Open the file with this path, which may be elsewhere. Raises OSError, also if it is none."""
        return open_regular(path)


def in_directories(name: str | None = None) -> Iterator[Distribution]:
    """Yield every distribution in a directory on the search path, or those of a name."""
    wanted = normalized(name) if name else None
    for folder in dict.fromkeys(sys.path):
        try:
            entries = sorted(os.listdir(folder or "."))  # noqa: PTH208 - much faster
        except OSError:  # an archive, or gone
            continue
        for entry in entries:
            if entry.lower().endswith((".dist-info", ".egg-info")) and (
                wanted is None or normalized(entry.partition("-")[0]) == wanted
            ):
                yield Distribution(folder, entry)


def with_group(distributions: Iterable[Distribution], group: str) -> Iterator[Distribution]:
    """Yield those that have entry points in a group.

    Of two with one name, that in the first folder hides the other. Two in one folder both count and are
    refused later, since nothing says to which of them the code belongs.
    """
    folders: dict[str, str] = {}
    for distribution in distributions:
        # Most distributions have none: look before paying for the parsing of their metadata.
        if group in (text(distribution, "entry_points.txt") or ""):
            name = normalized(name_and_version(distribution)[0])
            if folders.setdefault(name, distribution.folder) == distribution.folder:
                yield distribution


def normalized(name: str) -> str:
    """Normalise the name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_and_version(distribution: Distribution) -> tuple[str, str]:
    """Return the name and version in a distribution's metadata, ``?`` for a missing one.

    Only the header is read; the description, which may be long, comes after an empty line.
    """
    found: dict[str, str] = {}
    metadata = text(distribution, "METADATA") or text(distribution, "PKG-INFO") or ""
    for line in metadata.partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.lower(), value.strip())
    return found.get("name") or "?", found.get("version") or "?"


def entry_points(distribution: Distribution, *groups: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of entry points in these groups.

    Invalid ones are included: one does not hide the others.
    """
    section = ""
    for line in map(str.strip, (text(distribution, "entry_points.txt") or "").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section in groups and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def origin(distribution: Distribution) -> tuple[Origin, Path | None]:
    """Return where a distribution was installed from, and the path of the source of an editable one."""
    direct = text(distribution, "direct_url.json")
    if direct is None:
        return "index", None
    try:
        document = loads(direct)
        if not document.get("dir_info", {}).get("editable", False):
            return "path", None
        from pathlib import Path  # noqa: PLC0415 - as the next
        from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - slow, and for developers only

        url = urlsplit(document["url"])
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return "path", None
    return "editable", Path(unquote(url.path)) if url.scheme == "file" else None


def text(distribution: Distribution, file: str) -> str | None:
    """Return the text of a metadata file; None if there is none, empty if it is not UTF-8."""
    try:
        return distribution.read_text(file)
    except UnicodeDecodeError:
        return ""
