"""The rendered policies and the local engine decide alike, whatever the job and however its tasks end.

Or the engine says beforehand that it cannot; and each time that it does, there are ends which show why.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_kubernetes.manifests.policies import policies
from pai_runtime.document.problems import Problems
from pai_runtime.job.model import Job
from pai_runtime.task.record import replace
from tests.job_harness import build
from tests.kubernetes.jobset_model import End, JobSet
from tests.kubernetes.local_decisions import LocalDecisions
from tests.support import job

TaskName = tuple[str, int]
Choice = Callable[[Sequence[TaskName]], tuple[TaskName, int]]
"""Of the tasks that are running, which is the next to end, and with what code."""

BASE = build(job())
ROLE = BASE.roles["worker"]
CODES = (0, 1, 10)
"""Of which the last may be permanent."""

Moment = tuple[str | None, int, dict[TaskName, tuple[int, int]]]
"""The outcome, how often the job was restarted, and which attempts of tasks are running."""


def job_of(roles: Mapping[str, Mapping[str, Any]], **fields: Any) -> Job:
    made = {name: replace(ROLE, name=name, **role) for name, role in roles.items()}
    return replace(BASE, roles=made, **fields)


class Both:
    """The same job in both places."""

    def __init__(self, job: Job, permanent: Mapping[str, Any], folder: Path) -> None:
        names = {role: f"job-{role}" for role in job.roles}
        problems = Problems()
        rendered = policies(job, names, permanent, problems)
        self.refused = {problem.code for problem in problems.in_order}
        self._cluster = JobSet(rendered.jobs, rendered.jobset, names)
        self._local = LocalDecisions(job, permanent, folder)

    def moments(self, choose: Choice) -> list[tuple[Moment, Moment]]:
        """What was the case in both places, until they differ or all is over; then that is the last one."""
        seen = [self._moment()]
        while seen[-1][0] == seen[-1][1] and seen[-1][0][0] is None:
            task, code = choose(sorted(self._local.running))
            self._cluster.pod_ended(task, End(code))
            self._local.task_ended(task, code)
            seen.append(self._moment())
        return seen

    def _moment(self) -> tuple[Moment, Moment]:
        local, cluster = self._local, self._cluster
        return (
            (local.outcome, local.restarts, local.running),
            (cluster.outcome, cluster.restarts, cluster.running),
        )


def counts(most: int) -> st.SearchStrategy[int | None]:
    return st.sampled_from([None, -1, *range(1, most + 2)])


@st.composite
def roles(draw: st.DrawFn) -> dict[str, Any]:
    instances = draw(st.integers(1, 4))
    return {
        "instances": instances,
        # Any, and those that can be expressed.
        "min_failed": draw(counts(instances) | st.none() | st.integers(1, 2)),
        "min_succeeded": draw(counts(instances) | st.integers(1, 2)),
        "retries": draw(st.integers(0, 2)),
    }


@settings(max_examples=300)
@given(
    roles=st.lists(roles(), min_size=1, max_size=3),
    retries=st.integers(0, 2),
    gang=st.booleans(),
    always=st.booleans(),
    permanent=st.sets(st.integers(0, 2)),
    data=st.data(),
)
def test_what_is_not_refused_is_decided_alike(
    roles: list[dict[str, Any]],
    retries: int,
    gang: bool,
    always: bool,
    permanent: set[int],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
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


def _can_differ(make: Callable[[], Both], steps: int) -> bool:
    """Whether there are ends of tasks by which both decide differently."""
    return any(_differ(make(), codes) for codes in product(CODES, repeat=steps))


def _differ(both: Both, codes: Sequence[int]) -> bool:
    left = list(codes)
    # Tasks of one role are alike, so only the order of the ends counts; those after the last are good ones.
    local, cluster = both.moments(lambda running: (running[0], left.pop(0) if left else 0))[-1]
    return local != cluster


@pytest.mark.parametrize("instances", [1, 2, 3, 4])
@pytest.mark.parametrize("retries", [0, 1])
def test_only_what_can_be_decided_otherwise_is_refused(instances: int, retries: int, tmp_path: Path) -> None:
    some = [None, -1, *range(1, instances + 2)]
    for min_failed, min_succeeded in product(some, some):
        role = {"instances": instances, "min_failed": min_failed, "min_succeeded": min_succeeded}
        made = job_of({"worker": role}, retries=retries)
        both = Both(made, {"worker": (10,)}, tmp_path)
        can_differ = _can_differ(lambda made=made: Both(made, {"worker": (10,)}, tmp_path), instances)
        assert can_differ == bool(both.refused), role
