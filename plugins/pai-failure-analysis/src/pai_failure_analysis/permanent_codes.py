"""Which exit codes mean that a retry is in vain, whichever rule gave them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pai_failure_analysis.rules import Rule

SHIPPED = (132, 133, 136, 141, 142, 220, 221, 224, 226, 228, 230, 232, 233, 245, 246)
"""Codes that only permanent failures have by the shipped rules: reading those would slow down each plan."""
SHIPPED_OTHERS = frozenset(
    {128, 130, 131, 134, 135, 143, 222, 223, 225, 229, 231, *range(137, 141), *range(234, 245), 247, 248, 249}
)
"""All other codes that these rules give."""


def permanent_codes(rules: Iterable[Rule]) -> tuple[int, ...]:
    """The codes that only permanent failures have, by these rules and the shipped ones."""
    permanent, others = set(SHIPPED), set(SHIPPED_OTHERS)
    for rule in rules:
        (permanent if rule.behavior == "PERMANENT" else others).add(rule.code)
    return tuple(sorted(permanent - others))
