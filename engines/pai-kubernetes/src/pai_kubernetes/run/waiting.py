"""The reason why a task does not start, from scheduler, registry, kubelet, quota or queue. Pure.

The shapes are those of Kubernetes 1.29 to 1.36 and Kueue 0.6 to 0.19. From Kubernetes 1.32 on the status of a
container has the registry's words during the back-off, too; before, only the event ``Failed`` has them then.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pai_kubernetes.api.fields import condition, holds, label, moment, shown, whole, words
from pai_kubernetes.labels import APP, INIT, QUEUE, RUNTIME_LOG
from pai_kubernetes.run.pods import container_status
from pai_network.fields import mapping, mappings, string

Event = Mapping[str, Any]

_NOT_YET: Final = ("", "PodInitializing", "ContainerCreating")
"""Reasons of containers that wait normally."""
_PULLING: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
_ON_THE_NODE: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox")
_OF_A_POD: Final = re.compile(r'^(?:Error creating: )?(?:pods "[^"]*" is forbidden: )?')
_OF_THE_PAST: Final = ("FailurePolicyAction", "FailedJobs", "ReachedMaxRestarts")
"""Suffixes of the reasons for what a JobSet did after a failure, for which nothing waits."""


@dataclass(frozen=True)
class Warnings:
    """The warnings of a cluster about what hinders objects, latest last."""

    events: Mapping[tuple[str, str], Sequence[Event]]

    @staticmethod
    def of(events: Iterable[Event]) -> "Warnings":
        """Return the warnings among events about any objects."""
        found: dict[tuple[str, str], list[Event]] = {}
        for event in sorted(events, key=_time):
            about = mapping(event, "involvedObject")
            if not string(event, "reason").endswith(_OF_THE_PAST):
                found.setdefault((string(about, "kind"), string(about, "name")), []).append(event)
        return Warnings(found)

    def last(self, kind: str, name: str, *reasons: str) -> str:
        """Return the message of the last warning about an object, of one of these reasons if given."""
        for event in reversed(self.events.get((kind, name), ())):
            if not reasons or event.get("reason") in reasons:
                return words(event, "message")
        return ""


def why_no_pod(
    jobset: Mapping[str, Any], job: str, warnings: Warnings, workload: Mapping[str, Any] | None
) -> str:
    """Return why there is no pod of a task of the Job `job`."""
    run = string(jobset, "metadata", "name")
    if mapping(jobset, "spec").get("suspend") is True:
        queue = label(jobset, QUEUE)
        return _why_queued(shown(queue), workload) if queue else "the run is suspended"
    if refused := warnings.last("Job", job, "FailedCreate"):
        # Each try has another name for the pod, which is no other reason.
        return shown(f"pod cannot be created: {_OF_A_POD.sub('', refused)}")
    if refused := warnings.last("JobSet", run):
        return refused
    return "the job is restarted; no pod yet" if whole(jobset, "status", "restarts") else "no pod yet"


def _why_queued(queue: str, workload: Mapping[str, Any] | None) -> str:
    if workload is None:
        return f"waits in the queue {queue}"
    if mapping(workload, "spec").get("active") is False:
        why = words(condition(workload, "Evicted"), "message")
        return shown(
            f"deactivated in the queue {queue}: {why}" if why else f"deactivated in the queue {queue}"
        )
    if holds(workload, "QuotaReserved"):
        checks = [
            f"{words(check, 'name')} {words(check, 'state')}: {words(check, 'message')}".rstrip(": ")
            for check in mappings(workload, "status", "admissionChecks")
            if check.get("state") != "Ready"
        ]
        more = "; ".join(checks) or words(condition(workload, "Admitted"), "message")
        return shown(f"has quota in the queue {queue}, waits for admission: {more}".rstrip(": "))
    evicted = holds(workload, "Evicted") or holds(workload, "Requeued")
    before = words(condition(workload, "Evicted"), "message") if evicted else ""
    now = words(condition(workload, "QuotaReserved"), "message")
    again = " again" if before else ""
    reasons = "; ".join(dict.fromkeys(filter(None, [now, before])))
    return shown(f"waits in the queue {queue}{again}: {reasons}".rstrip(": "))


def why_pending(pod: Mapping[str, Any], warnings: Warnings, *, alone: bool) -> str:
    """Return why the task of a pod has not started; `alone` means that other tasks have no address yet."""
    name = string(pod, "metadata", "name")
    if not string(pod, "spec", "nodeName"):
        return _why_unscheduled(pod, warnings.last("Pod", name, "FailedScheduling"))
    for container in (INIT, RUNTIME_LOG, APP):
        state = container_status(pod, container)
        reason = string(mapping(state, "waiting"), "reason")
        if reason not in _NOT_YET:
            return _why_container_waits(pod, container, reason, warnings)
        if "running" in state and container == INIT:
            return "init container is running" + ("; other tasks have no address yet" if alone else "")
        if "terminated" not in state and "running" not in state:
            break
    if why := warnings.last("Pod", name, *_ON_THE_NODE):
        return why
    return "containers are being created"


def why_unknown(pod: Mapping[str, Any]) -> str:
    """Return a note that the cluster no longer hears from a running pod's node; empty if it does.

    Then the pod is not ready, although all of its containers are by the last report of the node.
    """
    ready = condition(pod, "Ready").get("status")
    if ready in ("False", "Unknown") and all(
        each.get("ready") is True for each in mappings(pod, "status", "containerStatuses")
    ):
        return "its node is not ready, and does not say how the task is"
    return ""


def _why_unscheduled(pod: Mapping[str, Any], warned: str) -> str:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return "not scheduled yet"
    why = words(scheduled, "message") or warned
    if scheduled.get("reason") == "SchedulingGated":
        return shown(f"held back from scheduling: {why}")
    return shown(f"cannot be scheduled: {why}" if why else "cannot be scheduled")


def _why_container_waits(pod: Mapping[str, Any], container: str, reason: str, warnings: Warnings) -> str:
    message = words(container_status(pod, container), "waiting", "message")
    if reason not in _PULLING:
        return shown(f"{reason}: {message}")
    if reason == "ImagePullBackOff" and ": " not in message.replace(_image(pod, container), ""):
        message = _registry_words(pod, warnings) or message
    which = "image" if container == APP else "runtime image (runtimeImage in engines.yaml)"
    return shown(f"{which} cannot be pulled: {message}")


def _registry_words(pod: Mapping[str, Any], warnings: Warnings) -> str:
    """Return the message of the event ``Failed`` that has the registry's words; empty without one."""
    events = warnings.events.get(("Pod", string(pod, "metadata", "name")), ())
    for event in reversed(events):
        message = words(event, "message")
        if event.get("reason") == "Failed" and message.startswith("Failed to pull image"):
            return message
    return ""


def _image(pod: Mapping[str, Any], container: str) -> str:
    for kind in ("containers", "initContainers"):
        for each in mappings(pod, "spec", kind):
            if each.get("name") == container:
                return string(each, "image")
    return ""


def _time(event: Event) -> float:
    times = (
        moment(event, "series", "lastObservedTime"),
        moment(event, "lastTimestamp"),
        moment(event, "eventTime"),
        moment(event, "firstTimestamp"),
        moment(event, "metadata", "creationTimestamp"),
    )
    return next((each for each in times if each is not None), 0.0)
