"""What the metadata of an installed distribution says, as far as it can be read at all."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

AnyDistribution = Any
"""A distribution, whichever of the library's two interfaces it has."""

Origin = Literal["index", "path", "editable"]


def normalized(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_and_version(distribution: AnyDistribution) -> tuple[str, str]:
    """As its metadata says; ``?`` for what it does not say.

    Read here, since the library parses all of the metadata for each, which takes longer than all else.
    """
    found: dict[str, str] = {}
    for line in (text(distribution, "METADATA") or text(distribution, "PKG-INFO") or "").splitlines():
        if not line:
            break  # the description begins
        key, _, value = line.partition(":")
        found.setdefault(key.lower(), value.strip())
    return found.get("name") or "?", found.get("version") or "?"


def entry_points(distribution: AnyDistribution, *groups: str) -> Iterator[tuple[str, str]]:
    """Names and values in these groups, also broken ones.

    Read here, since at one broken value some versions of the library give none of the others.
    """
    section = ""
    for line in map(str.strip, (text(distribution, "entry_points.txt") or "").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section in groups and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def origin(distribution: AnyDistribution) -> tuple[Origin, Path | None]:
    """Where it was installed from, and for an editable one the path of its source."""
    direct = text(distribution, "direct_url.json")
    if direct is None:
        return "index", None
    try:
        document = json.loads(direct)
        if not document.get("dir_info", {}).get("editable", False):
            return "path", None
        from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - slow, and for developers only

        url = urlsplit(document["url"])
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return "path", None
    return "editable", Path(unquote(url.path)) if url.scheme == "file" else None


def text(distribution: AnyDistribution, file: str) -> str | None:
    """A file of its metadata; None where there is none, empty where it is no text."""
    try:
        found: str | None = distribution.read_text(file)
    except UnicodeDecodeError:
        return ""
    return found
