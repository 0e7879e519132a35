"""``pai-runtime open --on`` forwards a port of this machine to a service of a task, until Ctrl-C."""

import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import urllib3

from pai_kubernetes.run.reader import Reader
from pai_runtime.runs.errors import CannotEnter, ClusterError
from pai_runtime.runs.state import Run
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import PlayedCluster
from tests.kubernetes.run_objects import NAME, running
from tests.local_server import LocalServer
from tests.small_cluster import write_profiles
from tests.support import PROGRAM

PAGE = bytes(range(256)) * 500


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def played(server: ApiServer) -> Iterator[PlayedCluster]:
    """A cluster whose task has a service."""
    with LocalServer(_Pages) as service:
        server.address = lambda _pod, port: (service.host, service.port if port == 6006 else 1)
        state = {"phase": "command", "since": 1.0, "addresses": {"board": "http://10.0.0.1:6006/x"}}
        server.program = lambda *_: ["echo", json.dumps(state)]
        cluster = PlayedCluster(server)
        cluster.pod(status=running())
        yield cluster


def get(url: str) -> bytes:
    return urllib3.PoolManager().request("GET", url, retries=False, headers={"Connection": "close"}).data


def reader_of(cluster: PlayedCluster) -> tuple[Reader, Run]:
    reader = Reader(cluster.api, NAME, "lab")
    run = reader.run()
    assert isinstance(run, Run)
    return reader, run


def test_a_service_is_found_and_many_connections_lead_to_it_at_once(played: PlayedCluster) -> None:
    reader, run = reader_of(played)
    task, other = run.tasks
    assert (reader.services(task), reader.services(other)) == ({"board": "http://10.0.0.1:6006/x"}, {})
    with reader.connected(task, reader.services(task)["board"]) as url:
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/x")
        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(get, [url] * 16)) == {PAGE}
    with pytest.raises(urllib3.exceptions.HTTPError):
        get(url)


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "http://user@10.0.0.1/", "http://10.0.0.1/\x1b[m", "ssh://10.0.0.1"]
)
def test_what_is_no_url_of_a_service_is_refused(played: PlayedCluster, address: str) -> None:
    reader, run = reader_of(played)
    with pytest.raises(CannotEnter), reader.connected(run.tasks[0], address):
        pass


def test_a_right_that_is_missing_is_named_at_once(played: PlayedCluster) -> None:
    reader, run = reader_of(played)
    played.server.forbidden.add(("create", "pods/portforward"))
    with (
        pytest.raises(CannotEnter, match="cannot create pods/portforward"),
        reader.connected(run.tasks[0], "http://10.0.0.1:6006"),
    ):
        pass
    played.server.forbidden.add(("create", "pods/exec"))
    with pytest.raises(ClusterError, match="cannot create pods/exec"):
        reader.services(run.tasks[0])


def test_what_a_task_writes_in_the_place_of_its_state_is_no_service(played: PlayedCluster) -> None:
    reader, run = reader_of(played)
    for argv in (
        ["echo", "[[[["],
        ["echo", '{"addresses": 7}'],
        ["true"],
        ["head", "-c", "1000000", "/dev/zero"],
    ):
        played.server.program = lambda *_, argv=argv: argv
        assert reader.services(run.tasks[0]) == {}


@pytest.mark.process
@pytest.mark.usefixtures("played")
def test_it_is_printed_and_forwarded_until_ctrl_c(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profiles(
        tmp_path / "config",
        f"  lab: {{engine: kubernetes, kubeconfig: {server.kubeconfig(tmp_path)}, runtimeImage: image}}\n",
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    argv = [str(PROGRAM), "open", NAME, "board", "--on", "lab"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        assert get(url) == PAGE
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
