"""Objects of a run as JobSet, Job and the kubelet leave them on a cluster."""

import json
from collections.abc import Mapping
from typing import Any

from pai_kubernetes.labels import (
    COMPLETION_INDEX,
    FILE,
    INDEX_FAILURES,
    JOB,
    JOBSET_NAME,
    QUEUE,
    REPLICATED_JOB,
    RESTART_ATTEMPT,
    ROLES,
    RUN,
    USER,
)

START = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:05:05Z"
NAME = "demo-bcdfg"

Object = dict[str, Any]


def jobset(
    roles: Mapping[str, int] | None = None,
    *,
    status: Object | None = None,
    spec: Object | None = None,
    queue: str = "",
    annotations: Mapping[str, str] | None = None,
    retries: int = 0,
) -> Object:
    """The JobSet of a run, with roles by name."""
    roles = {"worker": 2} if roles is None else roles
    named = {role: {"name": role.lower(), "instances": count} for role, count in roles.items()}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": NAME,
            "uid": f"uid-{NAME}",
            "creationTimestamp": START,
            "labels": {RUN: NAME, JOB: "demo", USER: "kim", **({QUEUE: queue} if queue else {})},
            "annotations": {
                ROLES: json.dumps(named),
                JOB: "demo",
                USER: "kim",
                FILE: "demo.yaml",
                **(annotations or {}),
            },
        },
        "spec": {
            "replicatedJobs": [
                {
                    "name": each["name"],
                    "replicas": 1,
                    "template": {"spec": {"backoffLimitPerIndex": retries, "completions": each["instances"]}},
                }
                for each in named.values()
            ],
            **(spec or {}),
        },
        "status": status or {},
    }


def ended(kind: str, at: str = LATER, message: str = "") -> Object:
    """The status of a JobSet that is ``Completed`` or ``Failed``."""
    condition = {"type": kind, "status": "True", "lastTransitionTime": at, "message": message}
    return {"conditions": [condition], "restarts": 0}


def pod(
    role: str = "worker",
    index: int = 0,
    *,
    status: Object | None = None,
    node: str = "node-1",
    restart: int = 0,
    failures: int = 0,
    created: str = START,
) -> Object:
    """The pod of a task, as Job makes it."""
    name = f"{NAME}-{role.lower()}-0-{index}-{restart}{failures}xyz"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": created,
            "labels": {
                RUN: NAME,
                JOBSET_NAME: NAME,
                REPLICATED_JOB: role.lower(),
                RESTART_ATTEMPT: str(restart),
                COMPLETION_INDEX: str(index),
            },
            "annotations": {COMPLETION_INDEX: str(index), INDEX_FAILURES: str(failures)},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "app", "image": "registry.example/train:1"}],
            "initContainers": [{"name": "init", "image": "registry.example/pai-runtime:1"}],
        },
        "status": status or {"phase": "Pending"},
    }


def running(address: str = "10.0.0.1") -> Object:
    """The status of a pod whose task runs."""
    return {
        "phase": "Running",
        "podIP": address,
        "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": START}}}],
        "initContainerStatuses": [
            {
                "name": "init",
                "state": {"terminated": {"exitCode": 0, "startedAt": START, "finishedAt": START}},
            },
            {"name": "runtime-log", "state": {"running": {"startedAt": START}}},
        ],
    }


def waiting(container: str, reason: str, message: str = "") -> Object:
    """The status of a pod one of whose containers waits."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    kind = "containerStatuses" if container == "app" else "initContainerStatuses"
    before = {"name": "init", "state": {"terminated": {"exitCode": 0}}}
    log = {"name": "runtime-log", "state": {"running": {"startedAt": START}}}
    others = {} if container != "app" else {"initContainerStatuses": [before, log]}
    scheduled = [{"type": "PodScheduled", "status": "True"}]
    return {
        "phase": "Pending",
        "conditions": scheduled,
        kind: [{"name": container, "state": state}],
        **others,
    }


def terminated(code: int, message: str = "", at: str = LATER, reason: str = "") -> Object:
    """The status of a pod whose task has ended."""
    state = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": START,
        "finishedAt": at,
        "message": message,
    }
    return {
        "phase": "Failed" if code else "Succeeded",
        "podIP": "10.0.0.1",
        "containerStatuses": [{"name": "app", "state": {"terminated": state}}],
    }


def told_to_end(document: Object, at: str = LATER, reason: str = "") -> Object:
    """A pod whose deletion was asked for, with a minute for its end, and `reason` if that is a disruption."""
    enforced = f"{at[:14]}{int(at[14:16]) + 1:02}{at[16:]}"
    metadata = {"deletionTimestamp": enforced, "deletionGracePeriodSeconds": 60}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": at}
    status = document["status"]
    conditions = [*status.get("conditions", ()), *([condition] if reason else ())]
    return {
        **document,
        "metadata": {**document["metadata"], **metadata},
        "status": {**status, "conditions": conditions},
    }


def without_code() -> Object:
    """The status of a pod that was killed before its node said how its containers ended."""
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": START}
    return {"phase": "Failed", "conditions": [ready], "containerStatuses": [{"name": "app", "state": {}}]}


def job(role: str = "worker", **status: Any) -> Object:
    """The Job of a role."""
    labels = {REPLICATED_JOB: role.lower(), JOBSET_NAME: NAME}
    return {"metadata": {"name": f"{NAME}-{role.lower()}-0", "labels": labels}, "status": status}


def record(code: int, at: str = "2026-01-02T03:05:04.000Z", **more: Any) -> str:
    """The termination message of a task that failed."""
    document = {"exitCode": code, "outcome": "failed", "phase": "command", "decidedAt": at, **more}
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in document.items())
    return f"[PAI_RUNTIME_ERROR_START]\n{lines}[PAI_RUNTIME_ERROR_END]\n"


def warning(kind: str, name: str, reason: str, message: str, at: str = START) -> Object:
    """An event of type Warning."""
    return {
        "metadata": {"name": f"{name}.{reason}.{at}"},
        "involvedObject": {"kind": kind, "name": name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }
