"""Completion policies and retries, as the controllers of a cluster are told them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import Problem, Problems
from pai_kubernetes.manifests.policies import Policies, policies
from pai_task.exit_codes import PERMANENT_INIT_CODES
from tests.job_harness import build
from tests.kubernetes.both_places import Both, TaskName, job_of
from tests.kubernetes.jobset_model import End, JobSet
from tests.kubernetes.published_schemas import models_of_jobset, validate
from tests.support import job

PERMANENT = 10


def role(
    instances: int = 1, failed: int | None = None, succeeded: int | None = None, retries: int = 0
) -> Mapping[str, Any]:
    return {"instances": instances, "min_failed": failed, "min_succeeded": succeeded, "retries": retries}


W, P = "worker", "ps"
ALONE = {"gang": False}

CASES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Sequence[tuple[TaskName, int]], str, int]] = {
    "all succeed": ({W: role(2)}, {}, [((W, 0), 0), ((W, 1), 0)], "succeeded", 0),
    "one fails": ({W: role(2)}, {}, [((W, 1), 1)], "failed", 0),
    "one fails after all others": ({W: role(2)}, {}, [((W, 0), 0), ((W, 1), 1)], "failed", 0),
    "one is enough": ({W: role(3, succeeded=1)}, {}, [((W, 2), 0)], "succeeded", 0),
    "two may fail": (
        {W: role(5, failed=3, succeeded=2)},
        {},
        [((W, 0), 1), ((W, 1), 1), ((W, 2), 0), ((W, 3), 0)],
        "succeeded",
        0,
    ),
    "two may fail, and three do": (
        {W: role(5, failed=3, succeeded=2)},
        {},
        [((W, 0), 1), ((W, 1), 1), ((W, 2), 0), ((W, 3), 1)],
        "failed",
        0,
    ),
    "the first role to complete does": (
        {W: role(2), P: role(2)},
        {},
        [((P, 0), 0), ((W, 0), 0), ((W, 1), 0)],
        "succeeded",
        0,
    ),
    "the first role to fail fails the job": (
        {W: role(2), P: role(2, succeeded=-1)},
        {},
        [((W, 0), 0), ((P, 0), 1)],
        "failed",
        0,
    ),
    "a server does not complete the job": (
        {W: role(1), P: role(1, succeeded=-1)},
        {},
        [((P, 0), 0), ((W, 0), 0)],
        "succeeded",
        0,
    ),
    "no role completes the job": (
        {W: role(1, succeeded=-1), P: role(1, succeeded=-1)},
        {},
        [((P, 0), 0), ((W, 0), 0)],
        "succeeded",
        0,
    ),
    "more than there are is never": (
        {W: role(1), P: role(1, succeeded=2)},
        {},
        [((P, 0), 0), ((W, 0), 1)],
        "failed",
        0,
    ),
    "the job is retried": (
        {W: role(2)},
        {"retries": 1},
        [((W, 0), 0), ((W, 1), 1), ((W, 0), 0), ((W, 1), 0)],
        "succeeded",
        1,
    ),
    "the job is retried in vain": ({W: role(1)}, {"retries": 2}, [((W, 0), 1)] * 3, "failed", 2),
    "a permanent failure is not": ({W: role(2)}, {"retries": 2}, [((W, 1), PERMANENT)], "failed", 0),
    "unless all are": (
        {W: role(1)},
        {"retries": 1, "retry_on": "always"},
        [((W, 0), PERMANENT), ((W, 0), 0)],
        "succeeded",
        1,
    ),
    "tasks that start together are not retried": ({W: role(2, retries=5)}, {}, [((W, 1), 1)], "failed", 0),
    "a task is retried alone": (
        {W: role(2, retries=1)},
        ALONE,
        [((W, 1), 1), ((W, 0), 0), ((W, 1), 0)],
        "succeeded",
        0,
    ),
    "a task is retried in vain": ({W: role(2, retries=1)}, ALONE, [((W, 1), 1)] * 2, "failed", 0),
    "a task is not retried after a permanent failure": (
        {W: role(2, retries=1)},
        {**ALONE, "retries": 1},
        [((W, 1), PERMANENT)],
        "failed",
        0,
    ),
    "but others are": (
        {W: role(4, failed=2, succeeded=2, retries=1)},
        ALONE,
        [((W, 1), PERMANENT), ((W, 0), 1), ((W, 0), 0), ((W, 2), 0)],
        "succeeded",
        0,
    ),
    "each attempt of the job has all retries of its tasks": (
        {W: role(1, retries=1)},
        {**ALONE, "retries": 1},
        [((W, 0), 1)] * 4,
        "failed",
        1,
    ),
}


@pytest.mark.parametrize(("roles", "fields", "ends", "outcome", "restarts"), CASES.values(), ids=CASES.keys())
def test_what_the_ends_of_tasks_decide(
    roles: Mapping[str, Any],
    fields: Mapping[str, Any],
    ends: Sequence[tuple[TaskName, int]],
    outcome: str,
    restarts: int,
    tmp_path: Path,
) -> None:
    both = Both(job_of(roles, **fields), dict.fromkeys(roles, (PERMANENT,)), tmp_path)
    left = list(ends)
    moments = both.moments(lambda _: left.pop(0))
    assert not both.refused
    assert moments[-1] == ((outcome, restarts, {}),) * 2
    assert left == []


def cluster(*, permanent: Sequence[int] = (PERMANENT,), roles: Mapping[str, Any], **fields: Any) -> JobSet:
    names = {name: f"job-{name}" for name in roles}
    made = policies(job_of(roles, **fields), names, dict.fromkeys(roles, permanent), Problems())
    return JobSet(made.jobs, made.jobset, names)


def test_disruptions_of_tasks_that_start_together_restart_the_job_and_do_not_count() -> None:
    model = cluster(roles={W: role(2)}, retries=1)
    for _ in range(3):
        model.pod_ended((W, 1), End(PERMANENT, disrupted=True))
    assert model.outcome is None
    assert set(model.running.values()) == {(3, 0)}
    for restarts in (4, 4):
        assert model.outcome is None
        model.pod_ended((W, 0), End(1))
        assert model.restarts == restarts
    assert model.outcome == "failed"


def test_disruptions_of_other_tasks_give_them_a_new_pod_and_do_not_count() -> None:
    model = cluster(roles={W: role(2, retries=1)}, gang=False)
    for _ in range(3):
        model.pod_ended((W, 1), End(137, disrupted=True))
    assert model.running == {(W, 0): (0, 0), (W, 1): (0, 0)}
    model.pod_ended((W, 1), End(1))
    assert model.running == {(W, 0): (0, 0), (W, 1): (0, 1)}


@pytest.mark.parametrize("gang", [True, False])
@pytest.mark.parametrize("code", [*PERMANENT_INIT_CODES, 250, 251, 137])
def test_an_init_container_is_not_tried_again_where_its_input_is_wrong(code: int, *, gang: bool) -> None:
    # The code means something else there than the same one of a task.
    model = cluster(roles={W: role(2)}, retries=1, gang=gang, permanent=(250, 251, 137))
    model.pod_ended((W, 0), End(code, "init"))
    assert (model.outcome, model.restarts) == (("failed", 0) if code in PERMANENT_INIT_CODES else (None, 1))


@pytest.mark.parametrize("code", PERMANENT_INIT_CODES)
def test_a_task_may_end_with_a_code_that_means_something_else_of_the_init_container(code: int) -> None:
    model = cluster(roles={W: role()}, retries=1)
    model.pod_ended((W, 0), End(code))
    assert (model.outcome, model.restarts) == (None, 1)


def problems_of(completion: Mapping[str, Any], **fields: Any) -> tuple[Problem, ...]:
    worker = {"instances": 4, "completion": completion, **fields.pop("worker", {})}
    made, problems = build(job(worker=worker, **fields)), Problems()
    policies(made, {W: W}, {W: (PERMANENT,)}, problems)
    return problems.in_order


@pytest.mark.parametrize(
    ("completion", "fields", "code", "expected"),
    [
        ({"minFailedInstances": -1}, {}, "undecided-on-kubernetes", "1"),
        ({"minFailedInstances": 2}, {}, "undecided-on-kubernetes", "1"),
        ({"minFailedInstances": 5}, {}, "undecided-on-kubernetes", "1"),
        ({"minFailedInstances": 2, "minSucceededInstances": -1}, {}, "undecided-on-kubernetes", "1"),
        ({"minFailedInstances": 3, "minSucceededInstances": 2}, {}, "undecided-on-kubernetes", "1 to 2"),
        ({"minFailedInstances": -1, "minSucceededInstances": 1}, {}, "undecided-on-kubernetes", "1 to 3"),
        (
            {"minFailedInstances": 2, "minSucceededInstances": 1},
            {"jobRetryCount": 1},
            "unknown-failure-on-kubernetes",
            "1",
        ),
    ],
)
def test_what_cannot_be_expressed_is_said_where_it_is_written(
    completion: Mapping[str, Any], fields: Mapping[str, Any], code: str, expected: str
) -> None:
    (problem,) = problems_of(completion, **fields)
    assert (problem.code, problem.severity, problem.expected) == (code, "error", expected)
    assert problem.field == "taskRoles.worker.completion.minFailedInstances"
    assert problem.found == str(completion["minFailedInstances"])
    assert problem.position is not None
    assert problem.position.line > 1


def test_failures_of_which_some_are_permanent_matter_to_retries_of_the_job_alone() -> None:
    several = {"minFailedInstances": 2, "minSucceededInstances": 1}
    assert problems_of(several) == ()
    assert problems_of(several, jobRetryCount=1, extras={"retryOn": "always"}) == ()


def rendered(permanent: Sequence[int] = (), **fields: Any) -> Policies:
    roles = {W: role(5, 3, 2, 4), P: role(succeeded=-1)}
    return policies(job_of(roles, **fields), {W: "w", P: "p"}, {W: permanent}, Problems())


@pytest.mark.parametrize("gang", [True, False])
@pytest.mark.parametrize("permanent", [(), (10, 9), range(1, 256)])
def test_they_fit_the_published_schemas(permanent: Sequence[int], *, gang: bool) -> None:
    made = rendered(permanent, retries=10**12, gang=gang)
    containers = [{"name": "app", "image": "image"}]
    pod = {"spec": {"containers": containers, "restartPolicy": "Never"}}
    for name, spec in made.jobs.items():
        document = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**spec, "template": pod},
        }
        validate(document, "1.36")
    success, failure = made.jobset["successPolicy"], made.jobset["failurePolicy"]
    models = models_of_jobset()
    for policy, kind in ((success, "Success"), (failure, "Failure")):
        read = getattr(models, f"JobsetV1alpha2{kind}Policy").from_dict(policy)
        assert read is not None
        assert read.to_dict() == policy


def test_a_job_is_restarted_once_all_pods_of_its_last_attempt_have_ended() -> None:
    assert rendered().jobset["failurePolicy"]["restartStrategy"] == "BlockingRecreate"


def test_codes_are_in_order_and_of_one_container() -> None:
    rules = rendered((12, 9, 12)).jobs[W]["podFailurePolicy"]["rules"]
    assert rules[-1]["onExitCodes"] == {"containerName": "app", "operator": "In", "values": [9, 12]}
    assert [rule["action"] for rule in rules] == ["FailJob", "FailIndex", "FailIndex"]


def test_a_controller_that_knows_no_patterns_restarts_no_permanent_failure() -> None:
    made = rendered((10,), retries=1)
    rules = [dict(rule) for rule in made.jobset["failurePolicy"]["rules"]]
    for rule in rules:
        del rule["onJobFailureMessagePatterns"]
    jobset = {**made.jobset, "failurePolicy": {"maxRestarts": 1, "rules": rules}}
    model = JobSet({P: made.jobs[P]}, {**jobset, "successPolicy": {"operator": "All"}}, {P: "p"})
    model.pod_ended((P, 0), End(1, "init"))
    assert model.outcome == "failed"
