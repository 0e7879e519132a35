"""Names that version 2 allows for those of version 1, which may have ``.`` and ``~`` in them."""

import re
from collections.abc import Callable, Sequence

_IDENTIFIER = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST = 240


def job_name(name: str) -> str:
    """The name of the job."""
    return re.sub("[.~]", "_", name)


def identifiers(names: Sequence[str], spelling: Callable[[str], str], usual: str) -> dict[str, str]:
    """Each name with the one for it: itself if it can be, and no two of the same `spelling`.

    `usual` goes before a name that has no spelling, or begins with a digit.
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
