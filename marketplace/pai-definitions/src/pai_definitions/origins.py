"""Origins of definition files: what lock files call them, which is the same for everybody.

The origin of a file in a folder begins with the name that somebody has given to the folder. A lock file has
the prefix ``source:`` instead: a path in any source of this machine.
"""

from typing import Final

from pai_runtime.host.locations import EMBEDDED, FILE, is_url

SHARED: Final = "source:"
"""The prefix of a path in a source, whatever its name; no source may have it as its name."""


def shared_origin(origin: str) -> str:
    """Return an origin without the name of a source, which is different for others."""
    _, colon, path = origin.partition(":")
    if not colon or is_url(origin) or origin.startswith((FILE, f"{EMBEDDED}:")):
        return origin
    return SHARED + path
