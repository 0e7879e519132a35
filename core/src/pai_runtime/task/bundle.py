"""The bundle as the two containers of a pod know it: what is in it, and what its launcher hands over."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENTS = "bundle.json"
"""The name of the file in the bundle that lists its content."""

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
"""Variables of an image that would change the behaviour of the bundle's own programs."""

OWN_VARIABLES = {"LC_ALL": "C", "TZ": "UTC0"}
"""Variables of the bundle's interpreter, so that it opens no locale or time zone file of the image."""

HIDING = 0x80
"""The bit that the launcher flips in the first byte of all other variables' names, to hide them."""


def image_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with which the container started, from the one that the launcher hands over."""
    return {_turned(name): value for name, value in environment.items() if name not in ("", *OWN_VARIABLES)}


def hidden_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as the launcher hands it over, with hidden names."""
    return {**{_turned(name): value for name, value in environment.items()}, **OWN_VARIABLES}


def _turned(name: str) -> str:
    first, *rest = os.fsencode(name)
    return os.fsdecode(bytes([first ^ HIDING, *rest]))


def is_obeyed(name: str) -> bool:
    """Return whether a variable would change the behaviour of the bundle's programs."""
    return name in OBEYED_NAMES or name.startswith(OBEYED_PREFIXES)
