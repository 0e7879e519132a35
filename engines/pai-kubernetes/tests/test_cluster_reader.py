"""A run on a cluster, as commands read it and act on it; and all runs, as ``ps`` lists them."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import parse_document
from pai_kubernetes.api import paths
from pai_kubernetes.api.times import as_text
from pai_kubernetes.cluster import KubernetesCluster
from pai_kubernetes.labels import CANCELLED, HOLD, JOBSET_NAME, REPLICATED_JOB
from pai_kubernetes.run.listing import listed_run
from pai_kubernetes.run.reader import Reader
from pai_kubernetes.run.runs import Runs
from pai_pod.told_variables import state_line, told_line
from pai_runtime.engines.profiles import Profile
from pai_runtime.runs.errors import CannotEnter, CannotRemove, ClusterError
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.terminal.words import retries
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster, api_of
from tests.kubernetes.run_objects import LATER, NAME, ended, job, jobset, record, running, terminated, warning
from tests.legacy_jobs import legacy_job, port, role
from tests.support import until


def _reader(cluster: PlayedCluster, name: str = NAME) -> Reader:
    return Reader(cluster.api, name, "lab")


def _run(reader: Reader) -> Run:
    run = reader.run()
    assert isinstance(run, Run)
    return run


def test_a_run_is_named_with_its_profile(server: ApiServer) -> None:
    reader = _reader(PlayedCluster(server))
    assert (reader.named, reader.on) == (NAME, "lab")


def test_a_run_that_is_not_there_is_unreadable_and_says_where_it_is_not(server: ApiServer) -> None:
    found = _reader(PlayedCluster(server), "demo-other").run()
    assert isinstance(found, Unreadable)
    assert all(word in found.reason for word in ("demo-other", NAMESPACE, "lab"))


def test_a_jobset_of_somebody_else_is_unreadable(server: ApiServer) -> None:
    cluster = PlayedCluster(server, annotations={"pai-runtime/roles": ""})
    assert isinstance(_reader(cluster).run(), Unreadable)


def test_without_jobset_on_the_cluster_that_is_said(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    server.installed.remove("jobset.x-k8s.io/v1alpha2")
    with pytest.raises(ClusterError, match="JobSet"):
        _reader(cluster).run()


def test_one_look_asks_for_the_warnings_only_if_a_task_waits(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": 1})
    failed = warning("Job", f"{NAME}-worker-0", "FailedCreate", "Error creating: exceeded quota")
    server.put(paths.events(NAMESPACE), failed)
    assert "exceeded quota" in _run(_reader(cluster)).tasks[0].note
    cluster.pod(status=running())
    server.counts.clear()
    assert _run(_reader(cluster)).tasks[0].state == "running"
    assert sum(server.counts.values()) == 2


def test_somebody_who_looks_again_gets_what_watches_have(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    reader = _reader(cluster)
    runs = [reader.run() for _ in range(10)]
    assert all(isinstance(run, Run) for run in runs)
    assert sum(server.counts.values()) <= 10
    reader.close()


def test_what_a_task_does_is_told_by_its_pod(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    cluster.pod(index=0, status=running())
    status = {"initContainerStatuses": [{"name": "init", "state": {"running": {"startedAt": LATER}}}]}
    cluster.pod(index=1, status={"phase": "Pending", **status})
    reader = _reader(cluster)
    tasks = _run(reader).tasks
    progress = [reader.progress(task) for task in tasks]
    assert [each and each.phase for each in progress] == ["command", "init"]


def test_the_exit_record_is_that_of_the_termination_message(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    cluster.pod(index=0, status=terminated(226, record(226, phrase="CUDA out of memory")))
    cluster.pod(index=1, status=terminated(137, reason="OOMKilled"))
    reader = _reader(cluster)
    one, two = _run(reader).tasks
    assert reader.exit_record(one)["phrase"] == "CUDA out of memory"
    assert "OOMKilled" in reader.exit_record(two)["message"]
    assert reader.exit_record(two)["phrase"] == "HostOutOfMemory"
    assert reader.exit_record(two)["solution"]


def test_stopping_a_run_suspends_it_for_good(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    cluster.pod(status=running())
    assert _reader(cluster).cancel() == ""
    found = server.get(paths.jobsets(NAMESPACE, NAME))
    assert found is not None
    assert found["spec"]["suspend"] is True
    assert CANCELLED in found["metadata"]["annotations"]
    assert _run(_reader(cluster)).stopping


def test_a_queued_run_that_kueue_does_not_know_yet_is_stopped_with_a_hint(server: ApiServer) -> None:
    assert _reader(PlayedCluster(server, queue="team-queue")).cancel()


def test_without_the_right_to_stop_it_that_right_is_named(server: ApiServer) -> None:
    server.forbidden.add(("patch", "jobsets.jobset.x-k8s.io"))
    with pytest.raises(ClusterError, match="patch"):
        _reader(PlayedCluster(server)).cancel()


def test_a_run_that_is_over_is_removed_with_all_that_it_owns(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    owner = [{"kind": "JobSet", "name": NAME, "uid": cluster.jobset["metadata"]["uid"]}]
    server.put(paths.secrets(NAMESPACE), {"metadata": {"name": "own", "ownerReferences": owner}})
    with pytest.raises(CannotRemove, match=f"stop {NAME} --on lab"):
        _reader(cluster).remove()
    cluster.end("Completed")
    _reader(cluster).remove()
    assert not server.list(paths.jobsets(NAMESPACE))
    assert not server.list(paths.secrets(NAMESPACE))


def test_without_the_right_to_remove_it_the_run_stays(server: ApiServer) -> None:
    server.forbidden.add(("delete", "jobsets.jobset.x-k8s.io"))
    cluster = PlayedCluster(server, status=ended("Completed"))
    with pytest.raises(CannotRemove, match="delete"):
        _reader(cluster).remove()


def test_only_a_task_that_runs_can_be_entered(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    cluster.pod(status=terminated(0))
    reader = _reader(cluster)
    for task, why in zip(_run(reader).tasks, ("ended", "worker/1"), strict=True):
        with pytest.raises(CannotEnter, match=why):
            reader.exec(task, [])


_JOB = """
protocolVersion: 2
name: demo
type: job
secrets: "******"
prerequisites: [{type: dockerimage, name: image, uri: a/b}]
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0, ports: {api: 1}}
    commands: [serve]
"""


def _told(cluster: PlayedCluster) -> Reader:
    """A reader of a run whose first task has told its variables."""
    status = running()
    pod = cluster.pod(index=0, status=status)
    told = {"PAI_TASK_INDEX": {"source": "platform", "value": "0"}}
    cluster.server.log(pod, "runtime-log", told_line({}) + b"a line\n" + told_line(told))
    hosts = {"worker": f"{NAME}-worker-0-{{index}}.{NAME}"}
    peers = {"peersVersion": 1, "framework": NAME, "user": "kim", "gang": True, "barrierSeconds": 600.0}
    data = {"job_config.yaml": _JOB, "peers.json": json.dumps({**peers, "hosts": hosts})}
    config = {"metadata": {"name": f"{NAME}-job"}, "data": data}
    cluster.server.put(paths.config_maps(NAMESPACE), config)
    return _reader(cluster)


def test_the_variables_of_a_task_are_told_by_its_sidecar_and_those_of_its_peers_by_the_job(
    server: ApiServer,
) -> None:
    reader = _told(PlayedCluster(server))
    variables = reader.variables(_run(reader).tasks[0]).known
    assert variables["PAI_TASK_INDEX"] == {"source": "platform", "value": "0"}
    assert variables["PAI_HOST_IP_worker_0"]["value"] == "10.0.0.1"
    assert variables["PAI_HOST_IP_worker_1"]["value"] == f"{NAME}-worker-0-1.{NAME}"
    assert "PAI_worker_1_api_PORT" in variables


def test_a_job_that_requires_definitions_tells_of_its_peers_too(server: ApiServer) -> None:
    reader = _told(PlayedCluster(server))
    shared = "    prerequisites: [example/data@1.0, https://example.com/setup.yaml#tools]\n    commands:"
    text = _JOB.replace("    commands:", shared).replace("dockerImage: image", "dockerImage: example/image@1")
    server.change(paths.config_maps(NAMESPACE, f"{NAME}-job"), {"data": {"job_config.yaml": text}})
    variables = reader.variables(_run(reader).tasks[0]).known
    assert variables["PAI_HOST_IP_worker_0"]["value"] == "10.0.0.1"
    assert "PAI_worker_1_api_PORT" in variables


@pytest.mark.process
def test_a_job_of_version_1_tells_of_its_peers_too(server: ApiServer) -> None:
    reader = _told(PlayedCluster(server))
    text = json.dumps(legacy_job(role(taskNumber=2, portList=[port("api")])))
    server.change(paths.config_maps(NAMESPACE, f"{NAME}-job"), {"data": {"job_config.yaml": text}})
    variables = reader.variables(_run(reader).tasks[0]).known
    assert variables["PAI_HOST_IP_worker_1"]["value"] == f"{NAME}-worker-0-1.{NAME}"
    assert "PAI_worker_1_api_PORT" in variables


def _break_job(server: ApiServer) -> None:
    server.change(paths.config_maps(NAMESPACE, f"{NAME}-job"), {"data": {"job_config.yaml": "]["}})


def _remove_job(server: ApiServer) -> None:
    api_of(server).delete(paths.config_maps(NAMESPACE, f"{NAME}-job"))


def _forbid_job(server: ApiServer) -> None:
    server.forbidden.add(("get", "configmaps"))


@pytest.mark.parametrize("make", [_break_job, _remove_job, _forbid_job])
def test_without_a_job_that_can_be_read_the_variables_of_the_task_alone_are_shown_and_why(
    server: ApiServer, make: Callable[[ApiServer], None]
) -> None:
    reader = _told(PlayedCluster(server))
    make(server)
    variables = reader.variables(_run(reader).tasks[0])
    assert set(variables.known) == {"PAI_TASK_INDEX"}
    assert "configmap" in variables.missing.lower()


def test_variables_that_were_not_told_yet_are_not_there(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    server.log(cluster.pod(status=running()), "runtime-log", b"a line\n")
    reader = _reader(cluster)
    one, two = _run(reader).tasks
    for task in (one, two):
        with pytest.raises(OSError, match=r"told|tell"):
            reader.variables(task)


def _job(role: str, *, retries: int = 0, **status: Any) -> dict[str, Any]:
    labels = {JOBSET_NAME: NAME, REPLICATED_JOB: role}
    spec = {"backoffLimitPerIndex": retries}
    return {"metadata": {"name": f"{NAME}-{role}-0", "labels": labels}, "spec": spec, "status": status}


def _states(run: Run) -> list[str]:
    return [task.state for task in run.tasks]


def test_a_list_counts_tasks_by_what_their_jobs_say() -> None:
    roles = {"master": 1, "worker": 5}
    jobs = [
        _job("master", ready=1, active=1),
        _job("worker", ready=2, active=3, completedIndexes="1", failedIndexes="4"),
    ]
    run = listed_run(jobset(roles), jobs)
    assert _states(run) == ["running", "running", "succeeded", "running", "waiting", "failed"]
    over = listed_run(jobset(roles, status=ended("Failed")), jobs)
    assert _states(over) == ["stopped", "stopped", "succeeded", "stopped", "stopped", "failed"]
    assert over.failed_task == "worker/4"


def test_a_job_that_does_not_list_its_failures_counts_them() -> None:
    run = listed_run(jobset({"worker": 3}, status=ended("Failed")), [_job("worker", failed=1)])
    assert _states(run) == ["failed", "stopped", "stopped"]


@pytest.mark.parametrize(
    ("end", "most", "status", "again"),
    [
        (None, 2, {"failed": 3, "ready": 3}, 3),
        (None, 2, {"failed": 3, "ready": 2, "failedIndexes": "1"}, 2),
        (None, 0, {"failed": 3, "ready": 1}, 0),
        ("Completed", 2, {"failed": 2, "completedIndexes": "0-2"}, 2),
        ("Failed", 2, {"failed": 5, "failedIndexes": "1"}, 2),  # two of them were stopped
        ("Failed", 2, {"failed": 2, "failedIndexes": "1"}, 0),
        (None, 2, {"failed": 10**6}, 6),
        (None, 2, {"failed": "x"}, 0),
    ],
)
def test_a_list_counts_how_often_tasks_were_tried_again(
    end: str | None, most: int, status: dict[str, Any], again: int
) -> None:
    document = jobset({"worker": 3}, status=ended(end) if end else {})
    document["status"]["restarts"] = 1
    run = listed_run(document, [_job("worker", retries=most, **status)])
    assert (run.retries, retries(run)) == (1, 1 + again)


def test_a_cancelled_run_is_over_once_its_jobs_have_no_pods() -> None:
    document = jobset(spec={"suspend": True}, annotations={CANCELLED: LATER})
    assert listed_run(document, [_job("worker", active=0, terminating=1)]).stopping
    assert listed_run(document, [_job("worker", active=0)]).outcome == "cancelled"


def _cluster(server: ApiServer, tmp_path: Path) -> KubernetesCluster:
    text = yaml.safe_dump(
        {
            "engine": "kubernetes",
            "runtimeImage": "registry.example/pai-runtime:1",
            "kubeconfig": str(server.kubeconfig(tmp_path)),
        }
    )
    return KubernetesCluster(Profile("lab", "kubernetes", parse_document(text, "engines.yaml")))


def test_all_runs_are_listed_the_latest_first_by_two_requests(server: ApiServer, tmp_path: Path) -> None:
    for number in range(30):
        document = jobset({"worker": 1})
        created = f"2026-01-02T03:04:{number:02}Z"
        document["metadata"] |= {"name": f"run-{number}", "creationTimestamp": created}
        server.put(paths.jobsets(NAMESPACE), document)
    found = _cluster(server, tmp_path).runs()
    assert [reader.named for reader, _ in found] == [f"run-{number}" for number in reversed(range(30))]
    assert all(isinstance(run, Run) for _, run in found)
    assert sum(server.counts.values()) == 2


def test_somebody_who_lists_all_runs_again_gets_what_watches_have(server: ApiServer) -> None:
    runs = Runs(PlayedCluster(server).api)
    with closing(runs):
        found = [runs.read() for _ in range(10)]
        assert all(list(each) == [NAME] for each in found)
        server.remove(paths.jobsets(NAMESPACE, NAME))
        until(lambda: not runs.read())
    assert sum(server.counts.values()) <= 6


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_without_a_right_to_watch_all_runs_it_is_named_and_nothing_is_watched(
    server: ApiServer, verb: str
) -> None:
    server.forbidden.add((verb, "jobs.batch"))
    runs = Runs(PlayedCluster(server).api)
    with closing(runs), pytest.raises(ClusterError, match=rf"{verb} jobs\.batch"):
        until(lambda: not runs.read())


_BY_RULE = (
    f"Container app for pod {NAMESPACE}/{NAME}-worker-0-1-bcdfg failed with exit code 3 matching FailJob rule"
)
_FAILED: list[tuple[dict[str, Any], list[str]]] = [
    (
        {
            "failed": 1,
            "failedIndexes": "",
            "conditions": [
                {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": _BY_RULE}
            ],
        },
        ["stopped", "failed", "stopped"],
    ),
    ({"failed": 1, "failedIndexes": "1"}, ["stopped", "failed", "stopped"]),
    ({"failed": 1, "failedIndexes": "2", "completedIndexes": "0-1"}, ["succeeded", "succeeded", "failed"]),
]


@pytest.mark.parametrize(("status", "states"), _FAILED)
def test_the_list_says_of_a_run_what_the_run_itself_does(
    server: ApiServer, status: dict[str, Any], states: list[str]
) -> None:
    """Of pods that are gone, as the Job has it."""
    cluster = PlayedCluster(server, {"worker": 3})
    server.put(paths.jobs(NAMESPACE), job(**status))
    cluster.end("Failed")
    (listed,) = Runs(cluster.api).read().values()
    assert isinstance(listed, Run)
    run = _run(_reader(cluster))
    assert [task.state for task in run.tasks] == [task.state for task in listed.tasks] == states
    assert run.failed_task == listed.failed_task == f"worker/{states.index('failed')}"


def test_what_a_run_is_about_to_do_or_waits_for_is_said_by_the_list_and_by_the_run(server: ApiServer) -> None:
    """Stopping, until its last pod has ended; queued, as long as it is suspended."""
    cluster = PlayedCluster(server, {"worker": 1}, queue="team-queue", spec={"suspend": True})
    path = paths.jobsets(NAMESPACE, NAME)

    def words() -> list[str]:
        (listed,) = Runs(cluster.api).read().values()
        assert isinstance(listed, Run)
        return [listed.word, _run(_reader(cluster)).word]

    assert words() == ["queued"] * 2
    server.change(path, {"spec": {"suspend": False}})
    pod = cluster.pod(status=running())
    server.put(paths.jobs(NAMESPACE), job(active=1, ready=1))
    assert words() == ["running"] * 2
    server.change(path, {"spec": {"suspend": True}, "metadata": {"annotations": {CANCELLED: LATER}}})
    assert words() == ["stopping"] * 2
    with pytest.raises(CannotRemove, match="being stopped"):
        _reader(cluster).remove()
    server.remove(paths.pods(NAMESPACE, pod))
    server.change(paths.jobs(NAMESPACE, f"{NAME}-worker-0"), {"status": {"active": 0, "ready": 0}})
    assert words() == ["cancelled"] * 2


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_that_a_node_does_not_answer_is_said_of_the_tasks_that_ran_on_it(
    server: ApiServer, ready: str
) -> None:
    cluster = PlayedCluster(server, {"worker": 2})
    state = running()
    state["containerStatuses"][0]["ready"] = True
    cluster.pod(index=0, status={**state, "conditions": [{"type": "Ready", "status": "True"}]})
    cluster.pod(index=1, status={**state, "conditions": [{"type": "Ready", "status": ready}]})
    assert [(task.state, bool(task.note)) for task in _run(_reader(cluster)).tasks] == [
        ("running", False),
        ("running", True),
    ]


def _in_init(since: str = LATER) -> dict[str, Any]:
    status = {"name": "init", "state": {"running": {"startedAt": since}}}
    return {"phase": "Pending", "podIP": "10.0.0.1", "initContainerStatuses": [status]}


@pytest.mark.parametrize("again", [False, True])
def test_why_a_task_is_long_in_its_init_container_is_said_by_its_log(
    server: ApiServer,
    again: bool,  # noqa: FBT001 - a column of the table
) -> None:
    cluster = PlayedCluster(server, {"worker": 3})
    for index in range(2):
        pod = cluster.pod(index=index, status=_in_init())
        server.log(pod, "init", b"[Mon Nov 23 05:14:08 UTC 2026] [INFO] 1 of 3 tasks are not found yet\n")
    with closing(_reader(cluster)) as reader:
        _run(reader)
        noted = [False]

        def is_noted() -> bool:
            noted[:] = ["not found yet" in task.note for task in _run(reader).tasks]
            return noted == [True, True, False]

        until(is_noted) if again else is_noted()
        assert noted == [True, True, False]


def test_the_log_of_a_task_that_is_in_its_init_container_for_seconds_is_not_asked_for(
    server: ApiServer,
) -> None:
    cluster = PlayedCluster(server, {"worker": 1})
    server.log(cluster.pod(status=_in_init(as_text(time.time()))), "init", b"cloning\n")
    assert "cloning" not in _run(_reader(cluster)).tasks[0].note
    assert server.counts["get", "/api/v1/pods/log"] == 0


@pytest.mark.parametrize("holds", [True, False])
def test_a_task_that_is_held_says_so_until_it_is_released(
    server: ApiServer,
    holds: bool,  # noqa: FBT001 - a column of the table
) -> None:
    cluster = PlayedCluster(server, {"worker": 1}, annotations={HOLD: "3600"} if holds else {})
    pod = cluster.pod(status=running())
    state = {"phase": "held", "since": 1.0, "heldUntil": 4102444800.0, "release": "/usr/local/pai/release"}
    server.log(pod, "runtime-log", b"log\n" + state_line(state) + b"more\n")
    reader = _reader(cluster)
    task = _run(reader).tasks[0]
    progress = reader.progress(task)
    assert progress is not None
    assert progress.phase == ("held" if holds else "command")
    assert "held" not in reader.log(task, "runtime").read(1000).decode()
    if not holds:
        assert server.counts["get", "/api/v1/pods/log"] == 2, "those of the log that was read"
        return
    assert (progress.held_until, progress.release) == (state["heldUntil"], state["release"])
    server.log(pod, "runtime-log", state_line({**state, "phase": "ending", "heldUntil": None}))
    reader = _reader(cluster)
    after = reader.progress(_run(reader).tasks[0])
    assert after is not None
    assert after.phase == "command"
