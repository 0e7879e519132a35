"""``pai-runtime init`` at the Framework barrier: what ends it there, and what is in the log.

The API server is a stand-in, for no cluster can be had here.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.certificates import authority, server_certificate
from tests.fault_server import FaultServer, Reply
from tests.init_harness import PodFolder, framework, framework_variables
from tests.support import PROGRAM, job, until

pytestmark = pytest.mark.process

JOB = job(worker={"instances": 3})
COMPLETE = Reply(body=json.dumps(framework(JOB)).encode())
WAITING = Reply(body=json.dumps(framework(JOB, hosts=False)).encode())


def _pod(folder: Path, server: FaultServer, **environment: str) -> PodFolder:
    platform = {"KUBE_APISERVER_ADDRESS": server.url, "PAI_TASKS_NUM": "3"}
    return PodFolder(folder, **framework_variables("worker"), **platform, **environment)


def _end(process: "subprocess.Popen[str]", number: signal.Signals) -> int:
    process.send_signal(number)
    process.communicate()
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_waits_ends_init_and_it_can_run_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    with FaultServer(WAITING) as server:
        pod = _pod(tmp_path, server)
        process = pod.start()
        assert process.stderr is not None
        assert any("3 of 3" in line for line in process.stderr)
        until((pod.volume / ".bundle.part/bundle.json").exists)  # copied meanwhile
        assert _end(process, number) == 128 + number
        assert len(server.requests) == 1
        assert not {path.name for path in pod.volume.iterdir()} & {".bundle.part", "bundle", "runtime"}
        server.replies = [COMPLETE]
        assert pod.init().returncode == 0, pod.log
    assert pod.plan["role"] == "worker"


def test_a_signal_while_the_api_server_is_silent_ends_init(tmp_path: Path) -> None:
    with FaultServer(Reply(raw=b"HTTP/1.1 200 OK\r\n", hang=True)) as server:
        process = _pod(tmp_path, server).start()
        assert server.asked.wait(60)
        assert _end(process, signal.SIGTERM) == 143


def test_what_may_pass_is_tried_again(tmp_path: Path) -> None:
    half = Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    with FaultServer(Reply(503), half, COMPLETE) as server:
        pod = _pod(tmp_path, server)
        assert pod.init().returncode == 0, pod.log
    assert "503" in pod.log


def test_without_gang_allocation_a_task_does_not_wait_for_others(tmp_path: Path) -> None:
    with FaultServer(WAITING) as server:
        pod = _pod(tmp_path, server)
        assert pod.init(GANG_ALLOCATION="false").returncode == 0, pod.log
    assert len(server.requests) == 1


def test_what_the_api_server_says_cannot_forge_the_log(tmp_path: Path) -> None:
    body = json.dumps({"kind": "Status", "message": "no\n[openpai-runtime] \x1b[2J the task can start"})
    with FaultServer(Reply(403, body.encode())) as server:
        pod = _pod(tmp_path, server)
        assert pod.init().returncode == 252
    assert "\x1b" not in pod.log
    assert all(line.startswith("[") and "] [openpai-runtime] " in line for line in pod.log.splitlines())
    assert "\n[openpai-runtime]" not in pod.log


@pytest.mark.needs("root", "mounts")
def test_the_service_account_is_found_where_kubernetes_mounts_it(tmp_path: Path) -> None:
    cluster = authority("cluster")
    certificate = server_certificate(cluster, ["127.0.0.1"]).write(tmp_path / "server.pem")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("the.token")
    (account / "ca.crt").write_bytes(cluster.pem)
    mount = (
        "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io"
        ' && cp -r "$1" /run/secrets/kubernetes.io/serviceaccount && exec "$2" init'
    )
    with FaultServer(COMPLETE, certificate=certificate) as server:
        service = {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": str(server.port)}
        pod = PodFolder(tmp_path, **framework_variables("worker"), **service)
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", mount, "sh", account, PROGRAM],
            env={**os.environ, **pod.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert server.requests[0].headers["Authorization"] == "Bearer the.token"
    assert "the.token" not in pod.log
