"""The decision whether a failed pod is followed by another one, by the policies of its JobSet. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from pai_kubernetes.api.fields import condition, whole
from pai_kubernetes.run.ends import End
from pai_kubernetes.run.pods import TaskPod
from pai_network.fields import mapping, mappings, string

Followed = Literal["again", "never", "permanent"]
"""Whether a failed pod is followed by another; `permanent`: it would be, but for its exit code."""


def is_followed(jobset: Mapping[str, Any], role_job: str, pod: TaskPod, end: End) -> Followed:
    """Return whether the task of a pod that ended badly is retried on its own."""
    spec = job_spec(jobset, role_job)
    action, by_code = _matching_rule(spec, pod, end)
    if action == "Ignore":
        return "again"
    is_left = pod.failures < whole(spec, "backoffLimitPerIndex")
    if action in ("FailIndex", "FailJob"):
        return "permanent" if by_code and (is_left or restarts_left(jobset)) else "never"
    return "again" if is_left else "never"


def job_spec(jobset: Mapping[str, Any], role_job: str) -> Mapping[str, Any]:
    """Return the spec of a replicated job's Jobs; empty if there is none."""
    jobs = mappings(jobset, "spec", "replicatedJobs")
    return next((mapping(each, "template", "spec") for each in jobs if each.get("name") == role_job), {})


def restarts_left(jobset: Mapping[str, Any]) -> bool:
    """Return whether the whole job may be restarted once more; a JobSet omits a count of 0."""
    used = whole(jobset, "status", "restartsCountTowardsMax")
    return used < whole(jobset, "spec", "failurePolicy", "maxRestarts")


def _matching_rule(spec: Mapping[str, Any], pod: TaskPod, end: End) -> tuple[str, bool]:
    """Return the action of the first rule that matches, and whether it matches by an exit code."""
    for rule in mappings(spec, "podFailurePolicy", "rules"):
        action = string(rule, "action")
        codes = mapping(rule, "onExitCodes")
        if codes:
            if _has_code(codes, end):
                return action, True
        elif any(_has_condition(each, pod) for each in mappings(rule, "onPodConditions")):
            return action, False
    return "", False


def _has_code(codes: Mapping[str, Any], end: End) -> bool:
    if not end.container or codes.get("containerName") not in (None, "", end.container):
        return False
    values = codes.get("values")
    is_in = isinstance(values, list) and end.code in values
    return end.code not in (None, 0) and is_in is (codes.get("operator") == "In")


def _has_condition(pattern: Mapping[str, Any], pod: TaskPod) -> bool:
    found = condition(pod.document, string(pattern, "type"))
    return bool(found) and found.get("status") == (pattern.get("status") or "True")


def role_is_over(jobset: Mapping[str, Any], role_job: str) -> bool:
    """Return whether the Job of a role has succeeded, so that it gets no more pods, though the run continues.

    In a run that continues, a JobSet counts a failed Job only in the update with which it restarts all of
    them: the numbers are then those of the last attempt.
    """
    statuses = mappings(jobset, "status", "replicatedJobsStatus")
    return not any(whole(each, "failed") for each in statuses) and role_has_succeeded(jobset, role_job)


def role_has_succeeded(jobset: Mapping[str, Any], role_job: str) -> bool:
    """Return whether the Job of a role has succeeded, by the last counts of the JobSet."""
    statuses = mappings(jobset, "status", "replicatedJobsStatus")
    return any(string(each, "name") == role_job and whole(each, "succeeded") > 0 for each in statuses)
