"""What differs between two versions of an item."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from pai_marketplace.pages.highlighting import lines_of
from pai_task.record import record

_MOST_LINES: Final = 1000
"""Lines of one version beyond which they are not compared, which would take seconds at worst."""
_CONTEXT: Final = 3


@record(frozen=True)
class Line:
    """A line of a comparison, with its number in the old and the new version; 0 where it is in one only.

    A ``gap`` stands for lines that are the same in both.
    """

    kind: Literal["same", "added", "removed", "gap"]
    old: int
    new: int
    text: str = ""


def differences(old: str, new: str) -> Sequence[Line] | None:
    """Return the lines that differ, with some around them; None if the versions are too long to compare."""
    before, after = lines_of(old), lines_of(new)
    if max(len(before), len(after)) > _MOST_LINES:
        return None
    return list(_lines(before, after))


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    end = 0
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT):
        if group[0][1] > end:
            yield Line("gap", 0, 0)
        for tag, old, old_end, new, new_end in group:
            if tag == "equal":
                for step, text in enumerate(before[old:old_end], 1):
                    yield Line("same", old + step, new + step, text)
                continue
            for number, text in enumerate(before[old:old_end], old + 1):
                yield Line("removed", number, 0, text)
            for number, text in enumerate(after[new:new_end], new + 1):
                yield Line("added", 0, number, text)
        end = group[-1][2]
    if 0 < end < len(before):
        yield Line("gap", 0, 0)
