"""The bundle as the two containers of a pod know it: what is in it, and what its launcher hands over."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENTS = "bundle.json"
"""The file in the bundle that says what is in it."""

OBEYED_NAMES = (
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "LANG",
    "LANGUAGE",
    "LOCPATH",
    "NLSPATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
)
OBEYED_PREFIXES = ("LC_", "LD_", "MALLOC_")
"""Variables of an image that would change what the bundle's own programs do."""

OWN_VARIABLES = {"LC_ALL": "C", "TZ": "UTC0"}
"""What the bundle's interpreter is started with, so that it opens no such file of the image."""

HIDING = 0x80
"""By which the launcher changes the first byte of all other variables: nothing knows their names then."""


def image_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that the container has begun with, from the one that the launcher hands over."""
    return {_turned(name): value for name, value in environment.items() if name not in ("", *OWN_VARIABLES)}


def hidden_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What the launcher hands over."""
    return {**{_turned(name): value for name, value in environment.items()}, **OWN_VARIABLES}


def _turned(name: str) -> str:
    first, *rest = os.fsencode(name)
    return os.fsdecode(bytes([first ^ HIDING, *rest]))


def is_obeyed(name: str) -> bool:
    """Whether the bundle's programs would do something else because of the variable."""
    return name in OBEYED_NAMES or name.startswith(OBEYED_PREFIXES)
