"""The Workload of a run in Kueue, by which it is admitted, evicted and deactivated."""

from collections.abc import Mapping
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.fields import label, name_of
from pai_kubernetes.api.paths import KUEUE_GROUP, api_group, workloads
from pai_kubernetes.labels import QUEUE
from pai_network.fields import string

_VERSIONS: Final = ("v1beta2", "v1beta1")
"""The supported versions, in which the used fields of a Workload are the same."""


def kueue_version(api: Api) -> str:
    """Return the version of Kueue's API to use. Raises `ApiError`, with status 404 if it is not installed."""
    group = api.get(api_group(KUEUE_GROUP))
    served = group.get("versions")
    names = [string(each, "version") for each in served] if isinstance(served, list) else []
    return next((each for each in _VERSIONS if each in names), _VERSIONS[-1])


def job_uid_selector(jobset: Mapping[str, Any]) -> str:
    """Return the label selector of the Workload of a JobSet."""
    return f"kueue.x-k8s.io/job-uid={string(jobset, 'metadata', 'uid')}"


def find_workload(api: Api, jobset: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the Workload of a JobSet; None if it is in no queue, or has none yet. Raises `ApiError`."""
    return _find_workload(api, jobset, kueue_version(api)) if label(jobset, QUEUE) else None


def deactivate(api: Api, jobset: Mapping[str, Any]) -> bool:
    """Make Kueue evict a run for good, since otherwise it resumes what is suspended. Raises `ApiError`.

    Returns False if the run has a queue, but Kueue has no Workload of it yet.
    """
    if not label(jobset, QUEUE):
        return True
    version = kueue_version(api)
    workload = _find_workload(api, jobset, version)
    if workload is None:
        return False
    api.patch(workloads(api.namespace, version, name_of(workload)), {"spec": {"active": False}})
    return True


def _find_workload(api: Api, jobset: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    path = workloads(api.namespace, version)
    return next(iter(api.list(path, selector=job_uid_selector(jobset)).items), None)
