"""The exit codes after which a retry is useless, whichever rule gives them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pai_failure_analysis.rules import Rule

SHIPPED = (132, 133, 136, 142, 220, 221, 224, 226, 228, 230, 232, 233, 245, 246)
"""Codes of permanent failures only, by the shipped rules; listed, since reading these slows each plan."""
SHIPPED_OTHERS = frozenset(
    {128, 130, 131, 134, 135, 143, 222, 223, 225, 229, 231, *range(137, 142), *range(234, 245), 247, 248, 249}
)
"""All other codes that the shipped rules give."""


def permanent_codes(rules: Iterable[Rule]) -> tuple[int, ...]:
    """Return the codes that only permanent failures have, by these rules and the shipped ones, sorted."""
    permanent, others = set(SHIPPED), set(SHIPPED_OTHERS)
    for rule in rules:
        (permanent if rule.behavior == "PERMANENT" else others).add(rule.code)
    return tuple(sorted(permanent - others))
