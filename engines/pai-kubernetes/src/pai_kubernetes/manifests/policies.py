"""Completion and retries of a job as fields of its roles' Jobs and of their JobSet. Pure.

What is decided is what `pai_runtime.runs.completion` and the local engine decide for the same ends of tasks,
in the same order. Jobs cannot decide all that roles can: one of which all indexes have finished, and any has
failed, is a failed Job, which always fails or restarts its JobSet. A role that could come to that is refused.
And controllers see states, not ends: of what happens between two looks, a failure counts before a success;
and a Job has failed, or completed, only once all of its pods have ended.

Needs Kubernetes 1.33 (``backoffLimitPerIndex`` and ``successPolicy`` are general), and for jobs whose tasks
start together JobSet 0.10 (``onJobFailureMessagePatterns``): an older one takes disruptions for failures.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pai_kubernetes.labels import APP, INIT
from pai_pod.engine import PERMANENT_INIT_CODES
from pai_runtime.engine import Job, Problem, Problems, TaskRole

_MOST: Final = 2**31 - 1
"""The maximum of the API's 32-bit counts."""

_BY_CODE: Final = r"^Container .* failed with exit code \d+ matching FailJob rule at index \d+$"
_BY_DISRUPTION: Final = r"^Pod .* has condition DisruptionTarget matching FailJob rule at index \d+$"
"""Messages of Jobs that failed by their `podFailurePolicy`, which is the reason of both."""

# The permanent ones are first: a JobSet that does not know of patterns would restart them for ever.
_PERMANENT: Final = {
    "name": "permanent",
    "action": "FailJobSet",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": [_BY_CODE],
}
_DISRUPTED: Final = {
    "name": "disrupted",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": [_BY_DISRUPTION],
}


@dataclass(frozen=True)
class Policies:
    """The policies of a job as fields of Kubernetes' objects.

    `jobs` has fields of the spec of each role's Job, by role, `jobset` those of the JobSet's spec.
    """

    jobs: Mapping[str, Mapping[str, Any]]
    jobset: Mapping[str, Any]


def policies(
    job: Job, names: Mapping[str, str], permanent: Mapping[str, Collection[int]], problems: Problems
) -> Policies:
    """Return the policies of a job; what cannot be expressed is reported, and then the result is of no use.

    `names` are those of the replicated jobs, by role. `permanent` has by role the exit codes after which a
    retry is useless; they are ignored if the job wants all failures to be retried.
    """
    if job.retry_on == "always":
        permanent = {}
    for role in job.roles.values():
        problems.add(*_undecided(role))
        if job.retries and any(permanent.values()):
            problems.add(*_unknown_cause(role))
    return Policies(
        jobs={role.name: _job(job, role, permanent.get(role.name, ())) for role in job.roles.values()},
        jobset={
            "successPolicy": _success(job, names),
            "failurePolicy": {
                "maxRestarts": min(job.retries, _MOST),
                # Names lead to pods that are about to end, too: peers of the attempt before could be taken
                # for those of this one.
                "restartStrategy": "BlockingRecreate",
                "rules": [_PERMANENT, _DISRUPTED] if job.gang else [_PERMANENT],
            },
        },
    )


def failing_count(role: TaskRole) -> int | None:
    """How many failed tasks fail the job; None: no number of them does."""
    return role.fails_at if 1 <= role.fails_at <= role.instances else None


def completing_count(role: TaskRole) -> int | None:
    """How many succeeded tasks complete the job; None: no number of them does."""
    return role.completes_at if 1 <= role.completes_at <= role.instances else None


def _job(job: Job, role: TaskRole, permanent: Collection[int]) -> Mapping[str, Any]:
    failing, completing = failing_count(role) or role.instances, completing_count(role)
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": role.instances,
        "parallelism": role.instances,
        "backoffLimitPerIndex": 0 if job.gang else min(role.retries, _MOST),
        "maxFailedIndexes": failing - 1,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": _pod_failures(permanent, gang=job.gang, first_fails=failing == 1)},
    }
    if completing is not None and completing < role.instances:
        spec["successPolicy"] = {"rules": [{"succeededCount": completing}]}
    return spec


def _pod_failures(permanent: Collection[int], *, gang: bool, first_fails: bool) -> list[dict[str, Any]]:
    """Return the rules for failed pods; the first match takes precedence."""
    # Peers know each other's addresses, which a pod that takes the place of another does not have.
    disrupted = "FailJob" if gang else "Ignore"
    # The reason of a Job that failed by its indexes would not tell that a retry is in vain.
    hopeless = "FailJob" if first_fails else "FailIndex"
    rules = [
        {"action": disrupted, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        _on_exit(hopeless, INIT, PERMANENT_INIT_CODES),
    ]
    if permanent:
        rules.append(_on_exit(hopeless, APP, permanent))
    return rules


def _on_exit(action: str, container: str, codes: Collection[int]) -> dict[str, Any]:
    values = sorted(set(codes))
    return {
        "action": action,
        "onExitCodes": {"containerName": container, "operator": "In", "values": values},
    }


def _success(job: Job, names: Mapping[str, str]) -> Mapping[str, Any]:
    completing = [names[role.name] for role in job.roles.values() if completing_count(role) is not None]
    if not completing:
        return {"operator": "All"}
    return {"operator": "Any", "targetReplicatedJobs": completing}


def _undecided(role: TaskRole) -> Iterator[Problem]:
    """Yield the problem of a role whose tasks may all end, some failed, without deciding the job."""
    failing, completing = failing_count(role), completing_count(role)
    most = max(role.instances - completing if completing else 0, 1)
    if failing is not None and failing <= most:
        return
    expected = f"1 to {most}" if most > 1 else "1"
    message = (
        "on Kubernetes, a role has failed if all of its tasks have ended and one of them has failed; with"
        f" {role.instances} instances and minSucceededInstances {role.completes_at}, expected {expected},"
        f" found {role.fails_at}; to have tasks that may fail, let their commands end with 0 anyway, as in:"
        " python train.py || echo failed"
    )
    yield _problem(role, "undecided-on-kubernetes", message, expected)


def _unknown_cause(role: TaskRole) -> Iterator[Problem]:
    """Yield the problem of a role whose tasks may fail, permanently or not, before the deciding failure."""
    if (failing_count(role) or 1) == 1:
        return
    message = (
        "on Kubernetes, it is not known which of several failures was permanent, so whether to retry the job;"
        f" expected 1, found {role.fails_at}; or set jobRetryCount to 0, or extras.retryOn to always"
    )
    yield _problem(role, "unknown-failure-on-kubernetes", message, "1")


def _problem(role: TaskRole, code: str, message: str, expected: str) -> Problem:
    place = role.value.at(("completion", "minFailedInstances"))
    return place.problem(code, message, found=str(role.fails_at), expected=expected)
