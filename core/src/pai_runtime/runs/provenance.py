"""What produced a run: the job file as written, what the command line changed, the commit, and the plugins.

``provenance.json`` in the directory of a run, which holds no value of a secret. It is untrusted when it is
read: what is not as expected counts as missing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pai_runtime.task.fast_json import loads_untrusted
from pai_runtime.task.folder import Folder

PROVENANCE: Final = "provenance.json"
"""The file in the directory of a run."""

_MOST_BYTES: Final = 32 * 1024 * 1024

Provenance = Mapping[str, Any]


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
