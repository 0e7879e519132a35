"""How often a cluster is asked: a constant number of times for a run of any size, beside the logs."""

from collections.abc import Iterator
from functools import partialmethod

import pytest

from pai_kubernetes.api.client import Api
from pai_kubernetes.run.reader import Reader
from pai_runtime.runs.logs_at_once import MOST_AT_ONCE
from pai_runtime.runs.state import Run
from pai_runtime.terminal.following import follow
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import PlayedCluster, PlayedView, be_quick
from tests.kubernetes.run_objects import NAME, running, terminated

_TASKS = 200
_PAGES = 4


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    be_quick(monkeypatch)
    monkeypatch.setattr("pai_runtime.terminal.following._REST_OF_RUN", 0.0)  # nobody reads them here
    monkeypatch.setattr(Api, "list", partialmethod(Api.list, limit=_TASKS // _PAGES))
    with ApiServer() as started:
        yield started


def test_following_any_number_of_tasks_takes_a_constant_number_of_requests(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": _TASKS})
    pods = [cluster.pod(index=index, status=running()) for index in range(_TASKS)]
    for pod in pods:
        server.log(pod, "app", b"hello\n")

    def script(run: Run) -> None:
        if len(view.shown) == 1:
            for task in run.tasks:
                reader.log(task, "user").read(100)
            server.wait_for(lambda: server.counts["get", "/api/v1/pods/log"] == MOST_AT_ONCE)
            for index in range(_TASKS):
                cluster.pod(index=index, status=terminated(0))
            for pod in pods:
                server.log(pod, "app", b"", ended=True)
            cluster.end("Completed")

    view = PlayedView(script)
    reader = Reader(cluster.api, NAME, "lab")
    run, status = follow(reader, view)
    assert (status, len(run.tasks)) == (0, _TASKS)
    counts = {(verb, kind.rpartition("/")[2]): count for (verb, kind), count in server.counts.items()}
    # More than those that are followed at a time, where some have ended before the run has.
    assert MOST_AT_ONCE <= counts.pop(("get", "log")) <= _TASKS
    assert counts[("list", "pods")] == 2 * _PAGES
    assert all(count == 1 for key, count in counts.items() if key != ("list", "pods"))
    assert sum(counts.values()) == 2 * _PAGES + 6


def test_one_look_at_a_run_takes_a_request_for_each_page_of_its_pods(server: ApiServer) -> None:
    cluster = PlayedCluster(server, {"worker": _TASKS})
    for index in range(_TASKS):
        cluster.pod(index=index, status=running())
    assert isinstance(Reader(cluster.api, NAME, "lab").run(), Run)
    assert sum(server.counts.values()) == 1 + _PAGES
