"""What produced a run: the job file as written, what the command line changed, the commit, and the plugins.

``provenance.json`` in the directory of a run, which holds no value of a secret; engines for clusters keep the
same with the run there. It is untrusted when it is read: what is not as expected counts as missing.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_task.plan import Plan

PROVENANCE: Final = "provenance.json"
"""The file in the directory of a run."""

_MOST_BYTES: Final = 32 * 1024 * 1024

Provenance = Mapping[str, Any]


def with_plugins(found: Provenance, plans: "Iterable[Plan]") -> Provenance:
    """Return it with the plugins that tasks with these plans use, and the digests of their code."""
    used = {use.plugin: use for plan in plans for use in plan.uses}
    plugins = [
        {"id": id_, "distribution": use.distribution, "version": use.version, "digest": use.digest}
        for id_, use in sorted(used.items())
    ]
    return {**found, "plugins": plugins}


def read_provenance(folder: Path) -> Provenance:
    """Return what is kept of where a run came from; empty if that is nothing, or unreadable."""
    try:
        with Folder.at(folder) as opened:
            found = loads_untrusted(opened.read(PROVENANCE, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def settings(found: Provenance) -> dict[str, str]:
    """Return what was set on the command line: parameters, and instances of roles."""
    given = [found.get(key) for key in ("set", "instances")]
    return {name: str(value) for each in given if isinstance(each, dict) for name, value in each.items()}


def part(found: Provenance, key: str) -> Mapping[str, Any]:
    """Return a mapping in it; empty if it is not there."""
    value = found.get(key)
    return value if isinstance(value, dict) else {}
