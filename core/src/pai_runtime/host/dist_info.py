"""Finding the distributions on the search path, without the modules that choose plugins."""

from __future__ import annotations

import sys

from pai_runtime.host.code import GROUP, Code
from pai_runtime.host.metadata import distributions, name_and_version, normalized, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pai_runtime.host.metadata import Distribution


def plugin_distributions() -> Iterator[Distribution]:
    """Every distribution that brings a plugin.

    Of two with one name, the first folder on the search path hides the second. Two in one folder are left
    for the policy to refuse: nothing says which of them the code there belongs to.
    """
    folders: dict[str, str] = {}
    for distribution in distributions(sys.path):
        # Most distributions bring none: look before paying for the parsing of their metadata.
        if GROUP in (text(distribution, "entry_points.txt") or ""):
            name = normalized(name_and_version(distribution)[0])
            if folders.setdefault(name, distribution.folder) == distribution.folder:
                yield distribution


def installed(name: str) -> Code:
    """The code of a distribution; raises LookupError, also if two of them in one folder have its name."""
    wanted = normalized(name)
    same = [each for each in distributions(sys.path) if normalized(each.info.partition("-")[0]) == wanted]
    found = [each for each in same if each.folder == same[0].folder]
    if not found:
        raise LookupError(f"no distribution {name} is installed")
    if len(found) > 1:
        raise LookupError(
            f"{found[0].folder} has two distributions {name}: {', '.join(each.info for each in found)}"
        )
    return Code(found[0])
