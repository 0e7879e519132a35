"""Why a task does not start, in the words of the cluster: the shapes are those that clusters really give."""

from typing import Any

import pytest

from pai_kubernetes.run.state import run_of
from tests.kubernetes.run_objects import LATER, NAME, START, jobset, pod, running, waiting, warning

_POD = f"{NAME}-worker-0-0-00xyz"
_IMAGE = "registry.example/train:1"
_NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available."
_DENIED = (
    f'rpc error: code = Unknown desc = failed to pull and unpack image "{_IMAGE}": failed to resolve '
    "reference: pull access denied, repository does not exist or may require authorization"
)
_QUOTA = (
    f'pods "{NAME}-worker-0-0-x7k2p" is forbidden: exceeded quota: team-a, '
    "requested: requests.nvidia.com/gpu=8, "
    "used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"
)
_NO_VOLUME = 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'


def _note(pod_document: dict[str, Any], *events: dict[str, Any]) -> str:
    return run_of(jobset({"worker": 1}), [pod_document], events).tasks[0].note


def _unscheduled(reason: str, message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return pod(node="", status={"phase": "Pending", "conditions": [condition]})


def test_a_task_that_cannot_be_scheduled_has_the_words_of_the_scheduler() -> None:
    assert _NO_GPU in _note(_unscheduled("Unschedulable", _NO_GPU))
    assert _NO_GPU in _note(
        _unscheduled("Unschedulable", ""), warning("Pod", _POD, "FailedScheduling", _NO_GPU)
    )
    assert "gates" in _note(_unscheduled("SchedulingGated", "Scheduling is blocked due to non-empty gates"))
    assert _note(pod(node=""))


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", _DENIED),
        ("ImagePullBackOff", f'Back-off pulling image "{_IMAGE}": ErrImagePull: {_DENIED}'),
        ("InvalidImageName", "Failed to apply default image tag: couldn't parse image name"),
        ("ErrImageNeverPull", f'Container image "{_IMAGE}" is not present with pull policy of Never'),
    ],
)
@pytest.mark.parametrize("container", ["init", "app"])
def test_an_image_that_cannot_be_pulled_has_the_words_of_the_registry(
    container: str, reason: str, message: str
) -> None:
    assert message[:200] in _note(pod(status=waiting(container, reason, message)))


def test_before_kubernetes_1_32_only_the_event_has_the_words_of_the_registry() -> None:
    backing_off = pod(status=waiting("app", "ImagePullBackOff", f'Back-off pulling image "{_IMAGE}"'))
    failed = warning("Pod", _POD, "Failed", f'Failed to pull image "{_IMAGE}": {_DENIED}')
    later = warning("Pod", _POD, "Failed", "Error: ImagePullBackOff", LATER)
    assert "pull access denied" in _note(backing_off, failed, later)
    assert _IMAGE in _note(backing_off)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("CreateContainerConfigError", 'secret "demo-bcdfg-secrets" not found'),
        ("CreateContainerError", "context deadline exceeded"),
        ("RunContainerError", "failed to create containerd task"),
    ],
)
def test_a_container_that_cannot_be_made_has_the_words_of_the_kubelet(reason: str, message: str) -> None:
    note = _note(pod(status=waiting("app", reason, message)))
    assert reason in note
    assert message in note


def test_a_volume_that_cannot_be_mounted_has_the_words_of_the_last_event() -> None:
    creating = pod(status=waiting("init", "PodInitializing"))
    events = [
        warning("Pod", _POD, "FailedMount", _NO_VOLUME, LATER),
        warning("Pod", _POD, "FailedMount", "an earlier one", START),
        warning("Pod", "another", "FailedMount", "of another pod", LATER),
    ]
    assert _note(creating, *events) == _NO_VOLUME
    assert _note(creating)


def test_a_pod_that_a_quota_forbids_has_the_words_of_the_quota() -> None:
    """And those alone: each try has another name for the pod."""
    notes = set()
    for name in ("x7k2p", "bcdfg"):
        said = f"Error creating: {_QUOTA}".replace("x7k2p", name)
        failed = warning("Job", f"{NAME}-worker-0", "FailedCreate", said)
        notes.add(run_of(jobset({"worker": 1}), [], [failed]).tasks[0].note)
    (note,) = notes
    assert _QUOTA.partition("forbidden: ")[2] in note


def test_a_job_that_jobset_cannot_create_has_the_words_of_jobset() -> None:
    failed = warning("JobSet", NAME, "JobCreationFailed", "admission webhook denied the request")
    assert "denied" in run_of(jobset({"worker": 1}), [], [failed]).tasks[0].note


def test_the_init_container_is_named_and_whom_it_may_wait_for() -> None:
    status = {
        "phase": "Pending",
        "podIP": "10.0.0.1",
        "initContainerStatuses": [{"name": "init", "state": {"running": {"startedAt": START}}}],
    }
    alone = run_of(jobset(), [pod(status=status)]).tasks[0].note
    both = run_of(jobset(), [pod(status=status), pod(index=1, status=running("10.0.0.2"))]).tasks[0].note
    assert alone.startswith(both)
    assert alone != both


def _workload(*conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": {"conditions": list(conditions), **more.pop("status", {})}, **more}


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


_NO_QUOTA = (
    "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor a100, "
    "4 more needed"
)
_PREEMPTED = "Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue"


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (None, ["team-queue"]),
        (_workload(), ["team-queue"]),
        (_workload(_condition("QuotaReserved", "False", "Pending", _NO_QUOTA)), ["team-queue", _NO_QUOTA]),
        (
            _workload(_condition("QuotaReserved", "False", "Inadmissible", "LocalQueue x doesn't exist")),
            ["LocalQueue x doesn't exist"],
        ),
        (
            _workload(
                _condition("QuotaReserved", "False", "Pending", "no quota"),
                _condition("Evicted", "True", "Preempted", _PREEMPTED),
            ),
            ["no quota", _PREEMPTED],
        ),
        (
            _workload(
                _condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue c"),
                status={"admissionChecks": [{"name": "nodes", "state": "Pending", "message": "scaling"}]},
            ),
            ["team-queue", "nodes", "scaling"],
        ),
        (
            _workload(_condition("Evicted", "True", "Deactivated", "by an admin"), spec={"active": False}),
            ["team-queue", "by an admin"],
        ),
    ],
)
def test_a_run_in_a_queue_has_the_words_of_the_queue(
    workload: dict[str, Any] | None, words: list[str]
) -> None:
    document = jobset({"worker": 1}, spec={"suspend": True}, queue="team-queue")
    note = run_of(document, [], workload=workload).tasks[0].note
    assert all(each in note for each in words)


def test_a_run_that_is_suspended_without_a_queue_says_so() -> None:
    suspended = run_of(jobset({"worker": 1}, spec={"suspend": True}), []).tasks[0].note
    assert suspended != run_of(jobset({"worker": 1}), []).tasks[0].note


def test_the_words_of_a_cluster_are_shown_as_one_bounded_line() -> None:
    note = _note(_unscheduled("Unschedulable", "a\n\x1b[2Jb\t c\u202e" + "x" * 10_000))
    assert note.isprintable()
    assert len(note) <= 300
    assert "a \\x1b[2Jb c\\u202e" in note
