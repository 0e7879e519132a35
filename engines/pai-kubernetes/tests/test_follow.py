"""Following a run on a cluster: what is shown, what is said, and with which status it ends."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from pai_kubernetes.api import paths
from pai_kubernetes.labels import CANCELLED
from pai_kubernetes.run.reader import Reader
from pai_runtime.runs.errors import ClusterError
from pai_runtime.runs.state import Run
from pai_runtime.terminal.following import follow
from pai_runtime.terminal.view import PlainView
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster, PlayedView
from tests.kubernetes.run_objects import NAME, record, running, terminated, warning
from tests.support import until


class _Script:
    """Steps that a test takes one after the other, each as soon as the last one has shown."""

    def __init__(self, *steps: tuple[Callable[[Run], bool], Callable[[], object]]) -> None:
        self._steps = list(steps)

    def __call__(self, run: Run) -> None:
        if self._steps and self._steps[0][0](run):
            self._steps.pop(0)[1]()


def _states(run: Run) -> list[str]:
    return [task.state for task in run.tasks]


def _follow(cluster: PlayedCluster, view: PlayedView) -> tuple[Run, int]:
    return follow(Reader(cluster.api, NAME, "lab"), view)


def test_a_run_is_shown_from_its_waiting_to_its_end(server: ApiServer) -> None:
    cluster = PlayedCluster(server)

    def start() -> None:
        cluster.pod(index=0, status=running())
        cluster.pod(index=1, status=running())

    def end() -> None:
        cluster.pod(index=0, status=terminated(0))
        cluster.pod(index=1, status=terminated(0))
        cluster.end("Completed")

    view = PlayedView(
        _Script(
            (lambda run: _states(run) == ["waiting", "waiting"], start),
            (lambda run: _states(run) == ["running", "running"], end),
        )
    )
    run, status = _follow(cluster, view)
    assert (run.outcome, status, _states(run)) == ("succeeded", 0, ["succeeded", "succeeded"])
    assert view.has_ended
    assert view.shown[-1] == run


def test_a_job_that_failed_without_a_code_has_a_status_nevertheless(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    cluster.end("Failed")
    assert _follow(cluster, PlayedView())[1] == 1


def test_what_the_cluster_says_of_a_waiting_task_is_in_its_note(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": 1})
    refused = warning("Job", f"{NAME}-worker-0", "FailedCreate", "Error creating: exceeded quota: team-a")
    server.put(paths.events(NAMESPACE), refused)
    view = PlayedView(
        _Script((lambda run: "exceeded quota" in run.tasks[0].note, lambda: cluster.end("Completed")))
    )
    assert _follow(cluster, view)[1] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_follower_leaves_the_run_alone_and_says_how_to_go_on(
    server: ApiServer, number: signal.Signals
) -> None:
    cluster = PlayedCluster(server)
    before = signal.getsignal(number)
    view = PlayedView(_Script((lambda _: True, lambda: os.kill(os.getpid(), number))))
    run, status = _follow(cluster, view)
    assert (run.over, status) == (False, 130)
    assert view.has_ended
    assert any(f"logs {NAME} -f --on lab" in said for said in view.said)
    assert any(f"stop {NAME} --on lab" in said for said in view.said)
    assert signal.getsignal(number) == before
    assert {request.verb for request in server.requests} <= {"get", "list", "watch"}


_SLOW = 60.0


@pytest.mark.parametrize("how", ["deleted", "ended"])
def test_a_run_is_left_as_soon_as_its_last_logs_have_ended(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """JobSet is decided before the pods that it stops have ended, and the watch of pods may be behind."""
    monkeypatch.setattr("pai_runtime.terminal.following._REST_OF_RUN", _SLOW)
    cluster = PlayedCluster(server, {"worker": 1})
    pod = cluster.pod(status=running())
    server.log(pod, "app", b"hello\n")
    reader = Reader(cluster.api, NAME, "lab")
    seen = b""

    def end() -> None:
        if how == "deleted":
            server.remove(paths.pods(NAMESPACE, pod))
        else:
            server.log(pod, "app", b"bye\n", ended=True)
            cluster.pod(status=terminated(143))

    def script(run: Run) -> None:
        nonlocal seen
        seen += log.read(100)
        steps(run)

    steps = _Script(
        (lambda _: seen == b"hello\n", lambda: cluster.end("Completed")), (lambda run: run.over, end)
    )
    run = reader.run()
    assert isinstance(run, Run)
    reader.run()
    log = reader.log(run.tasks[0], "user")
    before = time.monotonic()
    run, status = follow(reader, PlayedView(script))
    assert (run.outcome, status) == ("succeeded", 0)
    assert (run.tasks[0].state, run.tasks[0].exit_code) == (
        ("stopped", None) if how == "deleted" else ("failed", 143)
    )
    assert seen == (b"hello\n" if how == "deleted" else b"hello\nbye\n")
    assert time.monotonic() - before < _SLOW


def test_a_second_interrupt_ends_it_at_once(server: ApiServer) -> None:
    cluster = PlayedCluster(server)

    def interrupt_twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _follow(cluster, PlayedView(_Script((lambda _: True, interrupt_twice))))


def test_a_run_that_somebody_deletes_is_cancelled(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": 1})
    cluster.pod(status=running())

    def delete() -> None:
        server.remove(paths.jobsets(NAMESPACE, NAME))

    run, status = _follow(cluster, PlayedView(_Script((lambda run: _states(run) == ["running"], delete))))
    assert (run.outcome, status) == ("cancelled", 130)
    assert _states(run) == ["stopped"]


def test_restarts_are_said_once(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": 1}, spec={"failurePolicy": {"maxRestarts": 2}})
    cluster.pod(status=terminated(3))

    def restart() -> None:
        cluster.change(restarts=1)
        cluster.pod(status=running(), restart=1)

    view = PlayedView(
        _Script(
            (lambda run: _states(run) == ["failed"], restart),
            (lambda run: run.retries == 1 and _states(run) == ["running"], lambda: cluster.end("Completed")),
        )
    )
    run, _ = _follow(cluster, view)
    said = [text for text in view.said if "restarted" in text]
    assert len(said) == 1
    assert "worker/0" in said[0]
    assert run.tasks[0].retries == 1


@pytest.mark.parametrize(("failures", "restart"), [(1, 0), (0, 1)], ids=["task", "job"])
def test_why_a_task_is_started_again_is_said_though_no_look_saw_it_fail(
    server: ApiServer, failures: int, restart: int
) -> None:
    cluster = PlayedCluster(server, {"worker": 2}, spec={"failurePolicy": {"maxRestarts": 2}})
    pods = [cluster.pod(index=index, status=running()) for index in range(2)]
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}

    def evict() -> None:
        cluster.pod(index=0, status={**terminated(137), "conditions": [evicted]})
        for index in range(1 + restart):
            server.remove(paths.pods(NAMESPACE, pods[index]))
            cluster.pod(index=index, status=running(), failures=failures, restart=restart)
        cluster.change(restarts=restart)

    reader = Reader(cluster.api, NAME, "lab")
    reader.follow(lambda _text: None)
    with closing(reader):
        before = _running_again(reader, 0)
        evict()
        said = [text for text in reader.news(before, _running_again(reader, 1)) if "evicted" in text]
    assert len(said) == 1
    assert "worker/0" in said[0]


def _running_again(reader: Reader, retries: int) -> Run:
    """The run once its first task runs for this time."""
    seen: list[Run] = []

    def is_so() -> bool:
        run = reader.run()
        assert isinstance(run, Run)
        seen.append(run)
        return (run.tasks[0].state, run.tasks[0].retries) == ("running", retries)

    until(is_so)
    return seen[-1]


def test_a_pod_that_is_deleted_at_the_end_is_still_known(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": 1})
    pod = cluster.pod(status=terminated(7, record(7)))

    def clean_up() -> None:
        server.remove(paths.pods(NAMESPACE, pod))
        cluster.end("Failed")

    reader = Reader(cluster.api, NAME, "lab")
    run, status = follow(reader, PlayedView(_Script((lambda run: _states(run) == ["failed"], clean_up))))
    assert status == 7
    assert reader.exit_record(run.tasks[0])["exitCode"] == 7


def test_a_cluster_that_is_away_for_a_while_is_told_of_once(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pai_runtime.terminal.following._AWAY", 0.0)
    cluster = PlayedCluster(server, {"worker": 1})
    view = PlayedView()

    def go_away() -> None:
        server.arm(Fault(503), "watch", times=10**6)
        server.arm(Fault(503), "list", times=10**6)
        server.break_streams()

    view.script = _Script(
        (lambda _: True, go_away),
        (lambda _: len(view.said) == 1, server.disarm),
        (lambda _: len(view.said) == 2, lambda: cluster.end("Completed")),
    )
    assert _follow(cluster, view)[1] == 0
    assert len(view.said) == 2


def test_without_the_right_to_see_events_the_run_is_followed_all_the_same(server: ApiServer) -> None:
    server.forbidden |= {("list", "events"), ("watch", "events")}
    cluster = PlayedCluster(server)
    view = PlayedView()
    view.script = _Script(
        (lambda _: any("events" in text for text in view.said), lambda: cluster.end("Completed"))
    )
    assert _follow(cluster, view)[1] == 0


@pytest.mark.parametrize("resource", ["pods", "jobsets.jobset.x-k8s.io"])
def test_without_the_right_to_see_the_run_it_cannot_be_followed(server: ApiServer, resource: str) -> None:
    server.forbidden |= {("list", resource), ("watch", resource)}
    cluster = PlayedCluster(server)
    with pytest.raises(ClusterError, match=resource):
        _follow(cluster, PlayedView())


def test_a_run_that_does_not_exist_cannot_be_followed(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    with pytest.raises(ClusterError, match="demo-other"):
        follow(Reader(cluster.api, "demo-other", "lab"), PlayedView())


def test_the_queue_of_a_run_is_watched(server: ApiServer) -> None:
    server.installed.add("kueue.x-k8s.io/v1beta2")
    cluster = PlayedCluster(server, {"worker": 1}, queue="team-queue", spec={"suspend": True})
    reserved = {"type": "QuotaReserved", "status": "False", "message": "4 more needed"}
    workload = {
        "metadata": {
            "name": "jobset-demo",
            "labels": {"kueue.x-k8s.io/job-uid": cluster.jobset["metadata"]["uid"]},
        },
        "status": {"conditions": [reserved]},
    }

    def admit() -> None:
        cluster.end("Completed")

    view = PlayedView(_Script((lambda run: "4 more needed" in run.tasks[0].note, admit)))
    server.put(paths.workloads(NAMESPACE, "v1beta1"), workload)
    server.put(paths.workloads(NAMESPACE, "v1beta2"), workload)
    assert _follow(cluster, view)[1] == 0


def test_why_a_run_waits_is_told_when_the_reason_changes_and_not_when_numbers_do(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pai_runtime.terminal.view._LOOK_EVERY", 0.0)
    cluster = PlayedCluster(server, {"worker": 2}, queue="team-queue", spec={"suspend": True})
    labels = {"kueue.x-k8s.io/job-uid": cluster.jobset["metadata"]["uid"]}

    def say(message: str) -> None:
        condition = {"type": "QuotaReserved", "status": "False", "message": message}
        status = {"conditions": [condition]}
        metadata = {"name": "jobset-demo", "labels": labels}
        server.put(paths.workloads(NAMESPACE, "v1beta1"), {"metadata": metadata, "status": status})

    def seen(message: str) -> Callable[[Run], bool]:
        return lambda run: message in run.tasks[0].note

    script = _Script(
        (seen("12 more needed"), lambda: say("9 more needed")),
        (seen("9 more needed"), lambda: say("the queue is closed")),
        (seen("the queue is closed"), lambda: say("8 more needed")),
        (seen("8 more needed"), lambda: cluster.end("Completed")),
    )
    say("12 more needed")
    reader = Reader(cluster.api, NAME, "lab")
    view = PlainView(reader, shows_output=True)
    show = view.show

    def show_and_go_on(run: Run) -> None:
        show(run)
        script(run)

    monkeypatch.setattr(view, "show", show_and_go_on)
    assert follow(reader, view)[1] == 0
    told = [line for line in capfd.readouterr().err.splitlines() if "needed" in line or "closed" in line]
    assert len(told) == 2
    assert "12 more needed" in told[0]
    assert "the queue is closed" in told[1]


def test_a_stopped_run_in_a_queue_is_deactivated_so_that_it_is_not_resumed(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": 1}, queue="team-queue")
    labels = {"kueue.x-k8s.io/job-uid": cluster.jobset["metadata"]["uid"]}
    workload = {"metadata": {"name": "jobset-demo", "labels": labels}, "spec": {"active": True}}
    server.put(paths.workloads(NAMESPACE, "v1beta1"), workload)
    assert Reader(cluster.api, NAME, "lab").cancel() == ""
    jobset = server.get(paths.jobsets(NAMESPACE, NAME))
    found = server.get(paths.workloads(NAMESPACE, "v1beta1", "jobset-demo"))
    assert jobset is not None
    assert found is not None
    assert jobset["spec"]["suspend"] is True
    assert CANCELLED in jobset["metadata"]["annotations"]
    assert found["spec"]["active"] is False
    assert cluster.api.requests == 4  # nothing is asked for twice
