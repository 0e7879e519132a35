"""Names for version 2 in the place of those of version 1, which may contain ``.`` and ``~``."""

import re
from collections.abc import Callable, Sequence

_IDENTIFIER = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST = 240


def job_name(name: str) -> str:
    """Return a job's name for version 2."""
    return re.sub("[.~]", "_", name)


def identifiers(names: Sequence[str], spelling: Callable[[str], str], usual: str) -> dict[str, str]:
    """Map each name to an identifier: to itself if possible, and no two to the same `spelling`.

    `usual` is the prefix of a name that has no spelling, or begins with a digit.
    """
    found: dict[str, str] = {}
    taken = {""}
    for name in names:
        if _IDENTIFIER.fullmatch(name) and spelling(name) not in taken:
            found[name] = name
            taken.add(spelling(name))
    numbers: dict[str, int] = {}
    for name in names:
        if name not in found:
            found[name] = _new(name, spelling, usual, taken, numbers)
    return found


def _new(
    name: str, spelling: Callable[[str], str], usual: str, taken: set[str], numbers: dict[str, int]
) -> str:
    base = re.sub("[^a-zA-Z0-9_]", "_", name)[:_LONGEST]
    if not spelling(base) or base[0].isdigit():
        base = f"{usual}_{base}"
    chosen = base
    while spelling(chosen) in taken:
        numbers[base] = numbers.get(base, 1) + 1
        chosen = f"{base}_{numbers[base]}"
    taken.add(spelling(chosen))
    return chosen
