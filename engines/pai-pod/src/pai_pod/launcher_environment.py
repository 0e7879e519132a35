"""The environment of the image as the launcher of the bundle hands it over: with hidden names.

So no variable of the image changes the behaviour of the bundle's interpreter.
"""

from __future__ import annotations

import os

from pai_task.bundle import OWN_VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HIDING = 0x80
"""The bit that the launcher flips in the first byte of all variables' names but its own, to hide them."""


def image_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with which the container started, from the one that the launcher hands over."""
    return {turned(name): value for name, value in environment.items() if name not in ("", *OWN_VARIABLES)}


def turned(name: str) -> str:
    """Return the name of a variable, hidden; or a hidden one as it was."""
    first, *rest = os.fsencode(name)
    return os.fsdecode(bytes([first ^ HIDING, *rest]))
