"""What a kubelet says of its pods: their status, as the API has it."""

import time
from typing import Any

from tests.containers.kubelet import Pod
from tests.containers.volumes import Object

SCHEDULED = {"type": "PodScheduled", "status": "True"}


def rfc3339(moment: float) -> str:
    """A time as the API has it, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def pod_status(pod: Pod) -> dict[str, Any]:
    """The status of a pod whose sandbox there is."""
    return {
        "phase": _phase(pod),
        "podIP": pod.sandbox.address,
        "conditions": [SCHEDULED],
        "initContainerStatuses": [_container(pod, each) for each in pod.spec.get("initContainers", ())],
        "containerStatuses": [_container(pod, each) for each in pod.spec["containers"]],
    }


def pending_status(pod: Object, reason: str, message: str = "") -> dict[str, Any]:
    """The status of a pod whose containers wait for one reason."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    kinds = {"initContainers": "initContainerStatuses", "containers": "containerStatuses"}
    said = {
        kinds[kind]: [{"name": each["name"], "state": state} for each in pod["spec"].get(kind, ())]
        for kind in kinds
    }
    return {"phase": "Pending", "conditions": [SCHEDULED], **said}


def first_failure(pod: Pod) -> tuple[int, str]:
    """The exit code and the name of the container that decided a pod which is over, 0 if it succeeded."""
    for name in ("init", "app"):
        if pod.codes.get(name) != 0:
            return pod.codes.get(name, 137), name
    return 0, "app"


def _phase(pod: Pod) -> str:
    if pod.is_over():
        return "Failed" if first_failure(pod)[0] else "Succeeded"
    return "Running" if "app" in pod.started else "Pending"


def _container(pod: Pod, spec: Object) -> dict[str, Any]:
    name = spec["name"]
    if name not in pod.started:
        return {"name": name, "state": {"waiting": {"reason": "PodInitializing"}}}
    started = {"startedAt": rfc3339(pod.started[name])}
    if name not in pod.codes:
        return {"name": name, "state": {"running": started}}
    code = pod.codes[name]
    terminated = {
        **started,
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "finishedAt": rfc3339(pod.ended[name]),
        "message": pod.message(name),
    }
    return {"name": name, "state": {"terminated": terminated}}
