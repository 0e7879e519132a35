"""What the objects of a cluster say of a run."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_kubernetes.labels import CANCELLED, INDEX_FAILURES, ROLES
from pai_kubernetes.run.ends import end_of
from pai_kubernetes.run.indexes import expanded
from pai_kubernetes.run.state import run_of
from pai_runtime.engine.messages import cut
from pai_runtime.runs.restarts import restarts
from pai_runtime.runs.state import Run
from tests.kubernetes.run_objects import (
    LATER,
    NAME,
    START,
    ended,
    job,
    jobset,
    pod,
    record,
    running,
    terminated,
    told_to_end,
    warning,
    without_code,
)

_START, _LATER = 1767323045.0, 1767323105.0
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _states(run: Run) -> dict[str, str]:
    return {task.name: task.state for task in run.tasks}


def test_a_run_that_has_just_been_created_waits() -> None:
    run = run_of(jobset({"Master": 1, "worker": 2}), [])
    assert (run.job, run.engine, run.file, run.started) == ("demo", "kubernetes", "demo.yaml", _START)
    assert _states(run) == {"Master/0": "waiting", "worker/0": "waiting", "worker/1": "waiting"}
    assert all(task.note for task in run.tasks)
    assert not run.over
    assert run.outcome is None


def test_a_task_runs_from_the_start_of_its_command_on_its_node() -> None:
    run = run_of(jobset(), [pod(index=1, status=running())])
    assert _states(run) == {"worker/0": "waiting", "worker/1": "running"}
    task = run.tasks[1]
    assert (task.started, task.ended, task.node, task.note) == (_START, None, "node-1", "")


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed"), (137, "failed")])
def test_the_exit_code_of_the_task_decides_how_it_ended(code: int, state: str) -> None:
    task = run_of(jobset(), [pod(status=terminated(code))]).tasks[0]
    assert (task.state, task.exit_code, task.started, task.ended) == (state, code, _START, _LATER)


def test_a_task_has_ended_though_its_sidecar_still_prints() -> None:
    status = {**terminated(3), "phase": "Running"}
    assert run_of(jobset(), [pod(status=status)]).tasks[0].state == "failed"


def test_an_init_container_that_fails_fails_the_task_with_its_code() -> None:
    status = {
        "phase": "Failed",
        "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}],
        "initContainerStatuses": [
            {"name": "init", "state": {"terminated": {"exitCode": 251, "finishedAt": LATER}}}
        ],
    }
    task = run_of(jobset(), [pod(status=status)]).tasks[0]
    assert (task.state, task.exit_code, task.started) == ("failed", 251, None)
    end = end_of(pod(status=status))
    assert end is not None
    assert (end.container, end.record["outcome"], end.record["phase"]) == ("init", "setup-failed", "init")


def test_a_pod_that_was_evicted_says_so_in_the_record_that_it_could_not_leave() -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    end = end_of(pod(status=status))
    assert end is not None
    assert end.code is None
    assert "low on resource: memory" in end.record["message"]


def test_a_pod_that_failed_without_a_failed_container_has_not_succeeded() -> None:
    status = {**terminated(0), "phase": "Failed", "reason": "DeadlineExceeded"}
    assert run_of(jobset(), [pod(status=status)]).tasks[0].state == "failed"


def test_a_command_that_cannot_be_started_is_explained_by_the_container_runtime() -> None:
    status = terminated(128, message="exec: no such file", reason="StartError")
    end = end_of(pod(status=status))
    assert end is not None
    assert "StartError: exec: no such file" in end.record["message"]


def test_callbacks_that_failed_are_counted_from_the_record() -> None:
    message = record(0, outcome="ok", callbackFailureCount=2)
    assert run_of(jobset(), [pod(status=terminated(0, message))]).tasks[0].failed_callbacks == 2


@pytest.mark.parametrize(("kind", "outcome"), [("Completed", "succeeded"), ("Failed", "failed")])
def test_the_jobset_decides_the_run_and_stops_who_is_left(kind: str, outcome: str) -> None:
    pods = [pod(index=0, status=terminated(3 if kind == "Failed" else 0))]
    run = run_of(jobset(status=ended(kind)), pods)
    assert (run.outcome, run.ended, run.over) == (outcome, _LATER, True)
    assert run.tasks[1].state == "stopped"
    assert run.failed_task == ("worker/0" if kind == "Failed" else None)


def test_the_first_failure_counts_and_not_the_one_because_of_a_peer() -> None:
    pods = [
        pod(index=0, status=terminated(1, record(1, "2026-01-02T03:05:01.000Z", becauseOfPeer=True))),
        pod(index=1, status=terminated(2, record(2, "2026-01-02T03:05:02.000Z"))),
    ]
    assert run_of(jobset(status=ended("Failed")), pods).failed_task == "worker/1"


def test_a_failure_without_a_record_may_be_the_first_one() -> None:
    pods = [
        pod(index=0, status=terminated(1, record(1, "2026-01-02T03:05:04.000Z"))),
        pod(index=1, status=terminated(137, at="2026-01-02T03:05:03Z", reason="OOMKilled")),
    ]
    assert run_of(jobset(status=ended("Failed")), pods).failed_task == "worker/1"


def test_the_latest_pod_of_a_task_counts_with_its_retries() -> None:
    pods = [
        pod(status=running(), failures=1, created=LATER),
        pod(status=terminated(3), failures=0),
    ]
    task = run_of(jobset(retries=2), pods).tasks[0]
    assert (task.state, task.retries) == ("running", 1)


def test_a_task_that_is_to_be_tried_again_has_not_ended() -> None:
    task = run_of(jobset(retries=1), [pod(status=terminated(3))]).tasks[0]
    assert (task.state, task.exit_code, task.over) == ("waiting", None, False)
    assert "3" in task.note
    assert run_of(jobset(retries=1), [pod(status=terminated(3), failures=1)]).tasks[0].state == "failed"


def _with_rule(rule: dict[str, Any], retries: int = 1) -> dict[str, Any]:
    document = jobset(retries=retries)
    document["spec"]["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"] = {"rules": [rule]}
    return document


@pytest.mark.parametrize("action", ["FailIndex", "FailJob"])
def test_a_permanent_failure_is_not_tried_again_and_says_so(action: str) -> None:
    codes = {"containerName": "app", "operator": "In", "values": [231, 232]}
    document = _with_rule({"action": action, "onExitCodes": codes})
    task = run_of(document, [pod(status=terminated(231))]).tasks[0]
    assert (task.state, task.not_retried) == ("failed", True)
    assert run_of(document, [pod(status=terminated(3))]).tasks[0].state == "waiting"
    assert not run_of(document, [pod(status=terminated(231), failures=1)]).tasks[0].not_retried


def test_a_pod_that_was_preempted_is_replaced_whatever_the_retries() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    status = {
        **terminated(137),
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    }
    task = run_of(_with_rule(rule, retries=0), [pod(status=status)]).tasks[0]
    assert task.state == "waiting"


def test_restarts_of_the_job_count_for_each_task_and_forget_their_ends() -> None:
    document = jobset(status={"restarts": 2})
    run = run_of(document, [pod(status=terminated(3), restart=1), pod(index=1, status=running(), restart=2)])
    assert run.retries == 2
    assert [(task.state, task.retries) for task in run.tasks] == [("waiting", 2), ("running", 2)]


def test_what_a_restarted_jobset_still_counts_of_its_last_attempt_says_nothing_of_this_one() -> None:
    roles = {"ps": 1, "worker": 1}
    ps, worker = ({"name": name, "succeeded": 0, "failed": 0} for name in roles)
    of_jobs = {"restarts": 1, "replicatedJobsStatus": [{**ps, "succeeded": 1}, {**worker, "failed": 1}]}
    run = run_of(jobset(roles, status=of_jobs), [])
    assert _states(run) == {"ps/0": "waiting", "worker/0": "waiting"}
    of_jobs["replicatedJobsStatus"] = [{**ps, "succeeded": 1}, worker]
    assert _states(run_of(jobset(roles, status=of_jobs), [])) == {"ps/0": "stopped", "worker/0": "waiting"}


@pytest.mark.parametrize(("counted", "left"), [({}, True), ({"restartsCountTowardsMax": 1}, False)])
def test_restarts_that_do_not_count_leave_those_that_do(counted: dict[str, int], *, left: bool) -> None:
    status = {**ended("Failed"), "restarts": 1, **counted}
    document = jobset(status=status, spec={"failurePolicy": {"maxRestarts": 1}})
    failed = pod(status=terminated(231, record(231, behavior="PERMANENT")), restart=1)
    assert run_of(document, [failed]).tasks[0].not_retried is left


def test_pods_of_a_restarted_job_may_be_seen_before_the_jobset_says_so() -> None:
    run = run_of(jobset(), [pod(status=terminated(3)), pod(index=1, status=running(), restart=1)])
    assert run.retries == 1
    assert [(task.state, task.retries) for task in run.tasks] == [("waiting", 1), ("running", 1)]


def _told_to_end(code: int, message: str = "") -> dict[str, Any]:
    deletion = {"deletionTimestamp": "2026-01-02T03:06:04Z", "deletionGracePeriodSeconds": 60}
    document = pod(status=terminated(code, message))
    document["metadata"] |= deletion
    return document


def test_who_was_told_to_end_is_stopped_and_has_not_failed() -> None:
    done = jobset(status=ended("Completed"))
    assert run_of(done, [_told_to_end(143)]).tasks[0].state == "stopped"
    assert run_of(done, [_told_to_end(0)]).tasks[0].state == "succeeded"
    assert run_of(done, [_told_to_end(3, record(3))]).tasks[0].state == "failed"
    assert run_of(done, [_told_to_end(3, record(3, outcome="cancelled"))]).tasks[0].state == "stopped"


def test_a_task_that_a_queue_has_put_back_waits_and_has_not_failed() -> None:
    document = jobset(spec={"suspend": True}, queue="jobs")
    ended_pod = _told_to_end(143)
    for run in (run_of(document, [ended_pod]), run_of(document, [], ended=[ended_pod])):
        assert _states(run) == {"worker/0": "waiting", "worker/1": "waiting"}
        assert "jobs" in run.tasks[0].note
    again = pod(status=running(), created=LATER)
    assert run_of(jobset(queue="jobs"), [again], ended=[ended_pod]).tasks[0].state == "running"


_CANCELLED = record(143, outcome="cancelled", message="stopped by SIGTERM")
_AFTER = "2026-01-02T03:05:09Z"


@pytest.mark.parametrize(
    ("status", "code"),
    [(without_code(), None), (terminated(143, _CANCELLED, _AFTER), 143), (terminated(143, "", _AFTER), 143)],
)
@pytest.mark.parametrize(("reason", "cause"), [("", "deleted"), ("EvictionByEvictionAPI", "evicted")])
@pytest.mark.parametrize("indexes", ["1", "0-1", ""])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_run_that_failed_because_a_pod_was_removed_names_the_task_and_how(
    status: dict[str, Any],
    code: int | None,
    reason: str,
    cause: str,
    indexes: str,
    is_gone: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Whether the task has left a record or not, and whatever of the others was ended because of it."""
    removed = told_to_end(pod(index=1, status=status), reason=reason)
    stopped = told_to_end(pod(index=0, status=terminated(143, _CANCELLED, _AFTER)), "2026-01-02T03:05:07Z")
    document = jobset(status=ended("Failed", _AFTER))
    left, gone = ([stopped], [removed]) if is_gone else ([stopped, removed], [])
    run = run_of(document, left, ended=gone, jobs=[job(failed=1, failedIndexes=indexes)])
    assert (run.failed_task, _states(run)) == ("worker/1", {"worker/0": "stopped", "worker/1": "failed"})
    assert run.tasks[1].exit_code == code
    end = end_of(removed)
    assert end is not None
    for said in (run.tasks[1].note, end.record["message"]):
        assert cause in said
        assert "exit code" not in said


def test_who_fails_after_a_pod_was_deleted_has_not_failed_the_run_but_who_failed_before_has() -> None:
    deleted = told_to_end(pod(index=0, status=terminated(143, _CANCELLED, _AFTER)))
    document = jobset(status=ended("Failed", _AFTER))
    for at, first in (("2026-01-02T03:05:07Z", "worker/0"), (START, "worker/1")):
        failed = pod(index=1, status=terminated(1, record(1, at), at))
        assert run_of(document, [deleted, failed]).failed_task == first


def test_pods_that_are_deleted_because_their_role_is_complete_have_not_failed_the_run() -> None:
    of_jobs = [{"name": "ps", "succeeded": 1, "failed": 0}, {"name": "worker", "succeeded": 0, "failed": 1}]
    document = jobset(
        {"ps": 1, "worker": 1}, status={**ended("Failed", _AFTER), "replicatedJobsStatus": of_jobs}
    )
    stopped = told_to_end(pod("ps", status=terminated(143, _CANCELLED, LATER)), START)
    failed = pod("worker", status=terminated(1, record(1), LATER))
    assert run_of(document, [stopped, failed]).failed_task == "worker/0"
    assert run_of(document, [stopped]).failed_task is None


def test_a_pod_without_the_end_of_its_container_has_ended_when_it_was_told_to() -> None:
    end = end_of(told_to_end(pod(status=without_code())))
    assert end is not None
    assert (end.code, end.failed, end.ended) == (None, True, _LATER)


def test_a_restart_names_the_task_because_of_which_it_was_and_how_its_pod_was_removed() -> None:
    rule = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    document = _with_rule(rule, retries=0)
    drained = told_to_end(
        pod(index=1, status=terminated(143, _CANCELLED, _AFTER)), reason="EvictionByEvictionAPI"
    )
    before = run_of(document, [pod(index=0, status=running()), drained])
    document["status"] = {"restarts": 1}
    said = "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction"
    events = [warning("JobSet", NAME, said, "applying failure policy action: first failed job demo-worker-0")]
    now = run_of(document, [], events)
    (told,) = restarts(before, now)
    assert "worker/1" in told
    assert "evicted" in told
    assert "143" not in told
    assert all("policy" not in task.note for task in now.tasks)


def _cancelled() -> dict[str, Any]:
    return jobset(spec={"suspend": True}, annotations={CANCELLED: LATER})


def test_a_run_is_cancelled_once_its_last_task_has_ended() -> None:
    run = run_of(_cancelled(), [pod(status=running())])
    assert (run.over, run.stopping) == (False, True)
    run = run_of(_cancelled(), [_told_to_end(143)])
    assert (run.outcome, run.ended, run.stopping) == ("cancelled", _LATER, False)
    assert _states(run) == {"worker/0": "stopped", "worker/1": "stopped"}


def test_a_run_that_succeeded_before_it_was_stopped_has_succeeded() -> None:
    document = {**_cancelled(), "status": ended("Completed", START)}
    assert run_of(document, []).outcome == "succeeded"


def test_tasks_that_fail_because_the_run_was_stopped_do_not_fail_it() -> None:
    document = {**_cancelled(), "status": ended("Failed", "2026-01-02T03:06:05Z")}
    assert run_of(document, [_told_to_end(143)]).outcome == "cancelled"


def test_a_run_that_somebody_deleted_is_cancelled() -> None:
    run = run_of(jobset(), [], ended=[pod(status=running())], gone=_LATER)
    assert (run.outcome, run.ended) == ("cancelled", _LATER)
    assert {task.state for task in run.tasks} == {"stopped"}


def test_a_pod_that_was_deleted_is_known_by_what_was_last_seen_of_it() -> None:
    run = run_of(jobset(status=ended("Failed")), [], ended=[pod(status=terminated(3))])
    assert (run.failed_task, run.tasks[0].exit_code) == ("worker/0", 3)


def test_jobs_tell_how_tasks_ended_whose_pods_are_gone() -> None:
    of_role = job(completedIndexes="0,2-3", failedIndexes="4")
    run = run_of(jobset({"worker": 6}, status=ended("Failed")), [], jobs=[of_role])
    states = [task.state for task in run.tasks]
    assert states == ["succeeded", "stopped", "succeeded", "succeeded", "failed", "stopped"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", []), ("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("x,1,-3,2-", [1]), ("3-1", [])],
)
def test_lists_of_indexes_are_as_a_job_writes_them(text: str, numbers: list[int]) -> None:
    assert list(expanded(text)) == numbers


def test_lists_of_indexes_are_bounded() -> None:
    assert len(list(expanded("0-999999," * 100))) == 100_000


@pytest.mark.parametrize(
    "roles",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"worker": {"name": "worker", "instances": 1000000000}}',
        "[" * 100_000,
        '{"a b": {"name": "a", "instances": 1}}',
        '{"a": {"name": "a", "instances": true}}',
    ],
)
def test_a_jobset_that_is_no_run_is_refused(roles: str) -> None:
    document = jobset(annotations={ROLES: roles})
    with pytest.raises(ValueError, match="annotation"):
        run_of(document, [])


def test_texts_of_a_cluster_are_printable_and_bounded() -> None:
    document = pod(status={"phase": "Pending"}, node="\x1b[31mnode\u202e" + "x" * 5000)
    task = run_of(jobset(annotations={"pai-runtime/job": "\x1b]0;x\x07"}), [document]).tasks[0]
    assert task.node.isprintable()
    assert len(task.node) <= 300
    assert run_of(jobset(annotations={"pai-runtime/job": "\x1b]0;x\x07"}), []).job.isprintable()


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("one two", 7, "one two"),
        ("one two three", 9, "one two…"),
        ("one two", 6, "one…"),
        ("x" * 20, 10, "x" * 9 + "…"),
    ],
)
def test_long_texts_are_cut_between_words(text: str, most: int, expected: str) -> None:
    assert cut(text, most) == expected


@given(_JSON, _JSON, _JSON, st.sampled_from(["status", "metadata", "spec"]))
def test_no_object_of_any_shape_breaks_the_reading(one: Any, two: Any, three: Any, key: str) -> None:
    damaged = {**pod(), key: one}
    odd = pod(status={"phase": "Failed", "containerStatuses": two, "conditions": three})
    odd["metadata"]["annotations"][INDEX_FAILURES] = two
    broken = {**jobset(status=one if isinstance(one, dict) else {}), "spec": three}
    run_of(broken, [damaged, odd], [{"involvedObject": one, "message": two}], workload={"status": three})


def test_foreign_pods_and_indexes_that_do_not_exist_are_left_out() -> None:
    pods = [pod("other", 0, status=running()), pod("worker", 7, status=running())]
    assert {task.state for task in run_of(jobset(), pods).tasks} == {"waiting"}


def test_the_roles_are_those_of_the_annotation_in_its_order() -> None:
    document = jobset(annotations={ROLES: json.dumps({"B_": {"name": "b2", "instances": 1}})})
    assert [task.name for task in run_of(document, [pod("b2", status=running())]).tasks] == ["B_/0"]
    assert run_of(document, [pod("b2", status=running())]).tasks[0].state == "running"
