"""The end of a pod: the exit code of its task, its time, and its exit record. Pure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pai_kubernetes.api.fields import condition, holds, moment, whole, words
from pai_kubernetes.labels import APP, INIT
from pai_kubernetes.run.pods import container_status
from pai_network.fields import mapping, mappings, string
from pai_runtime.engine.records import read_termination_message

_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": "the cluster evicted its pod, as when a node is drained",
    "PreemptionByScheduler": "the cluster preempted its pod for one of a higher priority",
    "DeletionByTaintManager": "the cluster deleted its pod because of a taint, as of a node that is lost",
    "DeletionByPodGC": "the cluster deleted its pod, whose node is gone",
    "TerminationByKubelet": "its node ended its pod",
}
"""Messages by the reason of the condition ``DisruptionTarget``."""
_OUT_OF_MEMORY: Final = {
    "phrase": "HostOutOfMemory",
    "reason": "The task used more main memory than its limit, and the kernel killed its whole container.",
    "solution": [
        "Request more memory (memoryMB), or use less; fewer data loader workers and smaller caches help most",
        "Give /dev/shm (shmMB) no more than it needs; what is stored there counts towards memoryMB",
    ],
}
"""The analysis of a task that ran out of memory, whose whole container the kernel killed."""


@dataclass(frozen=True)
class End:
    """The end of a pod: of its `container`, or of the pod as a whole if that is empty.

    `code` is the task's exit code, None if unknown; `record` is its exit record, or a substitute if it left
    none. `disrupted` means that the cluster removed the pod (eviction, preemption, loss of its node),
    `stopped` that the pod was told to end, at the time `told`. `removal` describes how it was removed; empty
    if it was not.
    """

    code: int | None
    container: str
    started: float | None
    ended: float
    record: Mapping[str, Any]
    disrupted: bool = False
    stopped: bool = False
    told: float | None = None
    removal: str = ""

    @property
    def failed(self) -> bool:
        """Whether the task has not succeeded."""
        return self.code != 0


def end_of(pod: Mapping[str, Any]) -> End | None:
    """Return how a pod has ended; None if it has not."""
    phase = string(pod, "status", "phase")
    app = mapping(container_status(pod, APP), "terminated")
    init = mapping(container_status(pod, INIT), "terminated")
    if app and not (phase == "Failed" and not whole(app, "exitCode")):
        return _end(pod, APP, app)
    if phase == "Succeeded":
        ended = moment(app, "finishedAt") or _last_change(pod)
        return End(0, "", moment(app, "startedAt"), ended, {})
    if phase != "Failed":
        return None
    return _end(pod, INIT, init) if whole(init, "exitCode") else _end(pod, "", app)


def _end(pod: Mapping[str, Any], container: str, terminated: Mapping[str, Any]) -> End:
    code = whole(terminated, "exitCode") if container else None
    ended = moment(terminated, "finishedAt") or _last_change(pod)
    found = read_termination_message(string(terminated, "message")) if container == APP else {}
    told = _told_to_end(pod)
    by_command = found.get("outcome") in ("failed", "setup-failed", "timeout")
    removal = "" if by_command or code == 0 else _removal(pod)
    if removal and found:
        found = {**found, "message": removal}
    return End(
        code=code,
        container=container,
        started=moment(terminated, "startedAt") if container == APP else None,
        ended=ended,
        record=found or ({} if code == 0 else _stand_in(pod, container, terminated, code, ended)),
        disrupted=holds(pod, "DisruptionTarget"),
        stopped=found.get("outcome") == "cancelled"
        or (not by_command and code != 0 and told is not None and ended >= told),
        told=told,
        removal=removal,
    )


def _removal(pod: Mapping[str, Any]) -> str:
    """Describe how the pod was removed; empty if it was not.

    Anybody may have deleted it without a condition.
    """
    if holds(pod, "DisruptionTarget"):
        found = condition(pod, "DisruptionTarget")
        reason = string(found, "reason")
        said = words(found, "message") if reason == "TerminationByKubelet" else ""
        how = _DISRUPTIONS.get(reason) or f"the cluster removed its pod: {_reason_and_words(found)}"
        return ": ".join(filter(None, [how, said])) + "; that does not count as a failure"
    if said := _reason_and_words(mapping(pod, "status")):
        return f"its node ended its pod: {said}"
    return "its pod was deleted" if _told_to_end(pod) is not None else ""


def _told_to_end(pod: Mapping[str, Any]) -> float | None:
    """Return when the deletion was requested; the deletion timestamp is when it is enforced."""
    enforced = moment(pod, "metadata", "deletionTimestamp")
    return None if enforced is None else enforced - whole(pod, "metadata", "deletionGracePeriodSeconds")


def _last_change(pod: Mapping[str, Any]) -> float:
    """Return the best known time of the end, if no container says when it ended."""
    disrupted = moment(condition(pod, "DisruptionTarget"), "lastTransitionTime")
    changes = (moment(each, "lastTransitionTime") for each in mappings(pod, "status", "conditions"))
    created = moment(pod, "metadata", "creationTimestamp") or 0.0
    # A condition such as Ready may never have changed since the pod was created.
    return disrupted or _told_to_end(pod) or max([created, *filter(None, changes)])


def _stand_in(
    pod: Mapping[str, Any], container: str, terminated: Mapping[str, Any], code: int | None, ended: float
) -> dict[str, Any]:
    """Return a substitute for the exit record of a task that could leave none, in the cluster's words."""
    in_init = container == INIT
    return {
        "exitCode": code,
        "outcome": "setup-failed" if in_init else "failed",
        "phase": "init" if in_init else "command",
        "originUserExitCode": None,
        "message": _message(pod, terminated, container),
        **(_OUT_OF_MEMORY if string(terminated, "reason") == "OOMKilled" and not in_init else {}),
        "decidedAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(ended)),
    }


def _message(pod: Mapping[str, Any], terminated: Mapping[str, Any], container: str) -> str:
    if container != INIT and (removal := _removal(pod)):
        return removal
    if not container:
        return "its pod has failed, and the cluster does not say why"
    what = _reason_and_words(terminated, but=("Error", "Completed"))
    where = "the init container" if container == INIT else "the container"
    return f"{where} ended with exit code {whole(terminated, 'exitCode')}" + (f": {what}" if what else "")


def _reason_and_words(document: Mapping[str, Any], but: tuple[str, ...] = ()) -> str:
    reason, message = words(document, "reason"), words(document, "message")
    return ": ".join(filter(None, ["" if reason in but else reason, message]))
