"""The metadata of an installed distribution, as far as it is readable."""

from __future__ import annotations

import os
import re
import sys

from pai_runtime.task.fast_json import loads
from pai_runtime.task.regular_file import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Literal, TypeAlias

    Origin: TypeAlias = Literal["index", "path", "editable"]


class Distribution:
    """An installed distribution: a folder of the search path, and in it that of its metadata.

    It stands for the one of `importlib.metadata`, which takes longer to import than hundreds of them to read.
    """

    def __init__(self, folder: str, info: str) -> None:
        self.folder = folder
        self.info = info

    def read_text(self, file: str) -> str | None:
        """A file of its metadata; None where there is none. Raises UnicodeDecodeError."""
        try:
            with open_regular(os.path.join(self.folder, self.info, file)) as stream:  # noqa: PTH118 - much faster
                data = stream.read()
        except OSError:
            return None
        return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def distributions(search_path: Iterable[str]) -> Iterator[Distribution]:
    """Every distribution in the folders of a search path, in their order."""
    for folder in dict.fromkeys(search_path):
        try:
            names = sorted(os.listdir(folder or "."))  # noqa: PTH208 - much faster
        except OSError:  # an archive, or gone
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield Distribution(folder, name)


def distributions_with(group: str) -> Iterator[Distribution]:
    """Every distribution on the search path that has entry points in a group.

    Of two with one name, the first folder on the search path hides the second. Two in one folder are left
    for others to refuse: nothing says which of them the code there belongs to.
    """
    folders: dict[str, str] = {}
    for distribution in distributions(sys.path):
        # Most distributions have none: look before paying for the parsing of their metadata.
        if group in (text(distribution, "entry_points.txt") or ""):
            name = normalized(name_and_version(distribution)[0])
            if folders.setdefault(name, distribution.folder) == distribution.folder:
                yield distribution


def normalized(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_and_version(distribution: Distribution) -> tuple[str, str]:
    """As its metadata says; ``?`` for what it does not say.

    Of the header alone: the description, which may be long, comes after an empty line.
    """
    found: dict[str, str] = {}
    metadata = text(distribution, "METADATA") or text(distribution, "PKG-INFO") or ""
    for line in metadata.partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.lower(), value.strip())
    return found.get("name") or "?", found.get("version") or "?"


def entry_points(distribution: Distribution, *groups: str) -> Iterator[tuple[str, str]]:
    """Names and values in these groups, also broken ones.

    A broken one does not hide the others.
    """
    section = ""
    for line in map(str.strip, (text(distribution, "entry_points.txt") or "").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section in groups and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def origin(distribution: Distribution) -> tuple[Origin, Path | None]:
    """Where it was installed from, and for an editable one the path of its source."""
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
    """A file of its metadata; None where there is none, empty where it is no text."""
    try:
        return distribution.read_text(file)
    except UnicodeDecodeError:
        return ""
