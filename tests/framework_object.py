"""Objects of FrameworkController as an API server gives them, with what OpenPAI puts into them."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ANNOTATION = "rest-server/port-scheduling-spec"


class Pod(NamedTuple):
    """What is known of the pod of a task."""

    uid: str | None = None
    host: str | None = None


def hashed(start: int = 15000, end: int = 40000, **counts: int) -> dict[str, Any]:
    """A port spec: the number of ports by label, and always one for ssh and one for http."""
    labels = {**counts, **{label: 1 for label in ("ssh", "http") if label not in counts}}
    ports = {label: {"count": count} for label, count in labels.items()}
    return {"schedulePortStart": start, "schedulePortEnd": end, "ports": ports}


def task_role(
    name: str, number: int, ports: Mapping[str, Any], volumes: Sequence[str] = ("pai-vol", "host-log")
) -> dict[str, Any]:
    """A task role of the specification, by its converted name."""
    metadata = {"annotations": {ANNOTATION: json.dumps(ports)}, "creationTimestamp": None}
    spec = {"hostNetwork": True, "restartPolicy": "Never", "volumes": [{"name": each} for each in volumes]}
    pod = {"metadata": metadata, "spec": spec}
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    return {
        "name": name,
        "taskNumber": number,
        "frameworkAttemptCompletionPolicy": policy,
        "task": {"pod": pod, "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0}},
    }


def role_status(name: str, pods: Sequence[Pod]) -> dict[str, Any]:
    """What FrameworkController knows of the tasks of a role."""
    return {"name": name, "taskStatuses": [_task_status(name, *each) for each in enumerate(pods)]}


def _task_status(role: str, index: int, pod: Pod) -> dict[str, Any]:
    return {
        "index": index,
        "startTime": "2026-05-09T03:32:11Z",
        "completionTime": None,
        "state": "AttemptPreparing",
        "transitionTime": "2026-05-09T03:32:11Z",
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
        "attemptStatus": {
            "id": 0,
            "instanceUID": f"0_{pod.uid}",
            "podName": f"a39c400656b0168b6846c31fd09aa670-{role}-{index}",
            "podUID": pod.uid,
            "podNodeName": None,
            "podIP": pod.host,
            "podHostIP": pod.host,
            "completionStatus": None,
        },
    }


def framework_object(
    roles: Sequence[Mapping[str, Any]],
    statuses: Sequence[Mapping[str, Any]],
    *,
    config: str | None = None,
    compressed: bool = False,
) -> dict[str, Any]:
    """A Framework with these roles; `config` is the job's YAML."""
    attempt: dict[str, Any] = {"id": 0, "taskRoleStatuses": statuses}
    if compressed:
        packed = base64.b64encode(gzip.compress(json.dumps(statuses).encode())).decode()
        attempt = {"id": 0, "taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {
            "name": "a39c400656b0168b6846c31fd09aa670",
            "namespace": "default",
            "annotations": {"totalGpuNumber": "2"} if config is None else {"config": config},
            "labels": {"userName": "alice", "virtualCluster": "default"},
        },
        "spec": {"executionType": "Start", "taskRoles": list(roles)},
        "status": {"state": "AttemptPreparing", "attemptStatus": attempt},
    }
