"""The rendered policies and the local engine decide alike, whatever the job and however its tasks end.

Or the engine says beforehand that it cannot; and each time that it does, there are ends which show why.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kubernetes.both_places import Both, TaskName, job_of, refused

CODES = (0, 1, 10)
"""Of which the last may be permanent."""


def counts(instances: int) -> list[int | None]:
    """All that a completion policy can be of which anything else is a matter of degree."""
    return [None, -1, *range(1, instances + 2)]


EVERY: Sequence[Mapping[str, Any]] = [
    {"instances": instances, "min_failed": failed, "min_succeeded": succeeded, "retries": retries}
    for instances in range(1, 5)
    for failed, succeeded in product(counts(instances), counts(instances))
    for retries in range(3)
]
POSSIBLE = [role for role in EVERY if not refused(job_of({"worker": role}))]
MANY = [role for role in POSSIBLE if (role["min_failed"] or 1) > 1]
"""Roles that there may be on Kubernetes, and those of them that one failure does not decide."""


def one_of(roles: Sequence[Mapping[str, Any]]) -> st.SearchStrategy[Mapping[str, Any]]:
    """By their numbers: strategies are shown where a test fails, and these are hundreds of mappings."""
    return st.integers(0, len(roles) - 1).map(lambda number: roles[number])


@settings(max_examples=500)
@given(
    roles=st.lists(one_of(POSSIBLE) | one_of(MANY) | one_of(EVERY), min_size=1, max_size=3),
    retries=st.sampled_from([1, 2, 0]),
    gang=st.booleans(),
    always=st.sampled_from([False, False, False, True]),
    permanent=st.sets(st.integers(0, 2)),
    data=st.data(),
)
def test_what_is_not_refused_is_decided_alike(
    roles: list[Mapping[str, Any]],
    retries: int,
    permanent: set[int],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    *,
    gang: bool,
    always: bool,
) -> None:
    made = job_of(
        {f"role{number}": role for number, role in enumerate(roles)},
        retries=retries,
        gang=gang,
        retry_on="always" if always else "retryable",
    )
    both = Both(made, {f"role{number}": (10,) for number in permanent}, tmp_path_factory.getbasetemp())
    if both.refused:
        return

    def choose(running: Sequence[TaskName]) -> tuple[TaskName, int]:
        return data.draw(st.sampled_from(running)), data.draw(st.sampled_from(CODES))

    local, cluster = both.moments(choose)[-1]
    assert cluster == local


def differ(both: Both, codes: Sequence[int]) -> bool:
    """Whether both decide differently if the tasks end so, and those after them well."""
    left = list(codes)
    # Tasks of one role are alike, so only the order of the ends counts.
    local, cluster = both.moments(lambda running: (running[0], left.pop(0) if left else 0))[-1]
    return local != cluster


@pytest.mark.parametrize("instances", [1, 2, 3, 4])
@pytest.mark.parametrize("retries", [0, 1])
def test_only_what_can_be_decided_otherwise_is_refused(instances: int, retries: int, tmp_path: Path) -> None:
    for min_failed, min_succeeded in product(counts(instances), counts(instances)):
        role = {"instances": instances, "min_failed": min_failed, "min_succeeded": min_succeeded}
        made = job_of({"worker": role}, retries=retries)
        permanent = {"worker": (10,)}
        can_differ = any(
            differ(Both(made, permanent, tmp_path), codes) for codes in product(CODES, repeat=instances)
        )
        assert can_differ == bool(Both(made, permanent, tmp_path).refused), role
