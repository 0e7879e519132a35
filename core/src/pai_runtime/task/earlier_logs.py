"""Names of rotated log files as multilog chooses them: ``@<tai64n>.s``.

OpenPAI's portal looks for these, and shows one as the earlier part of a log.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS = 24
_EPOCH = (1 << 62) + 10
"""The TAI64 label of 1970, as multilog counts."""
_HEXADECIMAL = frozenset("0123456789abcdef")


def earlier_names(names: Iterable[str]) -> list[str]:
    """Return the names of rotated files among the names in a directory, newest first."""
    return sorted(filter(_is_earlier, names), reverse=True)


def next_name(names: Iterable[str]) -> str:
    """Return the name for the file that is full now, later than those of a directory."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    label = (_EPOCH + seconds) << 32 | nanoseconds
    before = earlier_names(names)
    if before:  # the clock may have been set back
        label = max(label, int(before[0][1 : 1 + _DIGITS], 16) + 1)
    return f"@{label:0{_DIGITS}x}.s"


def _is_earlier(name: str) -> bool:
    label = name[1:-2]
    return name == f"@{label}.s" and len(label) == _DIGITS and _HEXADECIMAL.issuperset(label)
