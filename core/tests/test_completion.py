"""Completion policies: which ends of tasks decide the job."""

import pytest

from pai_runtime.runs.completion import Decision, decision
from tests.job_harness import build
from tests.support import job


def _decide(completion: dict[str, int | None], instances: int, codes: list[int]) -> Decision | None:
    document = job(worker={"instances": instances, "completion": completion})
    roles = build(document).roles
    return decision(roles, {("worker", index): code for index, code in enumerate(codes)})


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ({}, (1, 3)),
        ({"minFailedInstances": 0, "minSucceededInstances": None}, (1, 3)),
        ({"minFailedInstances": -1, "minSucceededInstances": -1}, (-1, -1)),
        ({"minFailedInstances": 2, "minSucceededInstances": 4}, (2, 4)),
    ],
)
def test_one_failed_task_and_all_that_succeed_decide_unless_the_role_says_otherwise(
    completion: dict[str, int | None], expected: tuple[int, int]
) -> None:
    role = build(job(worker={"instances": 3, "completion": completion})).roles["worker"]
    assert (role.fails_at, role.completes_at) == expected


@pytest.mark.parametrize(
    ("completion", "instances", "codes", "expected"),
    [
        ({}, 2, [], None),
        ({}, 2, [0], None),
        ({}, 2, [0, 0], Decision(0)),
        ({}, 2, [3], Decision(3, ("worker", 0))),
        ({}, 2, [0, 7], Decision(7, ("worker", 1))),
        ({"minFailedInstances": None}, 2, [3], Decision(3, ("worker", 0))),
        ({"minFailedInstances": 2}, 3, [3], None),
        ({"minFailedInstances": 2}, 3, [3, 0, 4], Decision(4, ("worker", 2))),
        ({"minFailedInstances": -1}, 2, [3, 4], Decision(0)),
        ({"minSucceededInstances": 1}, 3, [0], Decision(0)),
        ({"minSucceededInstances": -1}, 2, [0], None),
        ({"minSucceededInstances": -1}, 2, [0, 0], Decision(0)),
        ({"minFailedInstances": 2, "minSucceededInstances": 2}, 3, [1, 0, 0], Decision(0)),
        ({"minFailedInstances": 3, "minSucceededInstances": 3}, 2, [1, 0], Decision(0)),
    ],
)
def test_the_first_policy_that_is_met_decides_the_job(
    completion: dict[str, int | None], instances: int, codes: list[int], expected: Decision | None
) -> None:
    assert _decide(completion, instances, codes) == expected
