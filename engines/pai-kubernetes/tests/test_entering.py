"""``pai-runtime exec --on`` runs a program in the container of a task, on the caller's streams."""

import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pai_kubernetes.api.access import Access
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.pod_exec import PodExec
from pai_network.websocket import MOST_BYTES, accepted
from pai_task.paths import LAUNCHER
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster, api_of
from tests.kubernetes.run_objects import NAME, running
from tests.small_cluster import write_profiles
from tests.support import PROGRAM
from tests.typed_terminal import Terminal


def as_in_the_pod(_pod: str, container: str, argv: Sequence[str], terminal: bool) -> Sequence[str]:  # noqa: FBT001 - as the server calls it
    """What the task's supervisor runs, without a pod."""
    launcher, enter, type_, *program = argv
    assert (launcher, enter, container, bool(type_)) == (LAUNCHER, "enter", "app", terminal)
    return ["env", f"TERM={type_}", *(program or ["sh"])]


@pytest.fixture
def pod(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the pod of a task that runs, on the cluster of the profile ``lab``."""
    server.program = as_in_the_pod
    write_profiles(
        tmp_path / "config",
        f"  lab: {{engine: kubernetes, kubeconfig: {server.kubeconfig(tmp_path)}, runtimeImage: image}}\n",
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return PlayedCluster(server).pod(status=running())


EXEC = [str(PROGRAM), "exec", "--on", "lab", NAME, "worker/0"]


@pytest.mark.process
@pytest.mark.usefixtures("pod")
def test_its_streams_are_the_callers_byte_for_byte_and_so_is_its_exit_status() -> None:
    data = bytes(range(256)) * 1024
    script = "cat; echo error >&2; exit 7"
    ended = subprocess.run(
        [*EXEC, "--", "sh", "-c", script], input=data, capture_output=True, timeout=60, check=False
    )
    assert (ended.stdout == data, ended.stderr, ended.returncode) == (True, b"error\n", 7)


@pytest.mark.process
@pytest.mark.usefixtures("pod")
def test_on_a_terminal_it_has_one_of_its_own_and_the_callers_is_as_it_was_afterwards() -> None:
    shell = Terminal("sh", "-c", 'stty -g; "$@"; echo "status $?"; stty -g', "sh", *EXEC)
    before = shell.wait_for(r"[0-9a-f:]+(?=\r\n)")
    shell.resize(30, 111)
    shell.type('until test "$(stty size)" = "30 111"; do sleep 0.01; done; echo "$TERM" $((1 + 1))\n')
    shell.wait_for("dumb 2")
    shell.type("sh -c 'echo begun-$((1 + 1)); exec sleep 600'\n")
    shell.wait_for("begun-2")
    shell.type("\x03")
    shell.wait_for(r"\^C")
    shell.type("exit 5\n")
    shell.wait_for("status 5\r\n")
    assert shell.wait_for(r"[0-9a-f:]+(?=\r\n)") == before
    assert shell.end() == 0


def test_without_the_right_it_is_named(server: ApiServer, pod: str) -> None:
    server.forbidden.add(("create", "pods/exec"))
    api = api_of(server)
    with pytest.raises(ApiError, match=f"cannot create pods/exec in namespace {NAMESPACE}"):
        PodExec(api, pod, "app", ["true"], stdin=False)


def test_a_program_that_cannot_be_started_is_the_fault_of_what_the_server_says(
    server: ApiServer, pod: str
) -> None:
    server.program = lambda *_: ["/no/such/program"]
    with closing(PodExec(api_of(server), pod, "app", ["x"], stdin=False)) as program:
        with pytest.raises(ApiError, match="exec failed"):
            program.receive()
        assert program.status is None


def test_another_login_is_used_and_other_refusals_are_told(server: ApiServer, pod: str) -> None:
    server.arm(Fault(500, message="no node"), "create", "pods/exec")
    with pytest.raises(ApiError, match="no node"):
        PodExec(api_of(server), pod, "app", ["true"], stdin=False)
    with pytest.raises(ApiError) as missing:
        PodExec(api_of(server), "other", "app", ["true"], stdin=False)
    assert missing.value.status == 404


FRAMES = {
    "larger than": struct.pack(">BBQ", 0x82, 127, MOST_BYTES + 1),
    "a message is larger": b"".join(
        struct.pack(">BBQ", first, 127, MOST_BYTES) + bytes(MOST_BYTES) for first in (0x02, 0x00)
    ),
    "does not keep": struct.pack(">BB", 0x82, 0x80) + bytes(4),
    "not keep to": b"\x80\x00",
    "the connection to the pod broke": b"\x82\x05\x01ab",
    "no reason": b"\x82\x05\x03[[[[",
    "closed before": b"\x88\x02\x03\xe8",
}


@pytest.mark.parametrize("why", FRAMES)
def test_what_is_no_websocket_of_bounded_messages_is_refused(why: str) -> None:
    """The server is a socket that answers the request, and sends these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_answer, args=(listening, FRAMES[why]))
        thread.start()
        api = _api_at(listening.getsockname()[1])
        program = PodExec(api, "pod", "app", ["true"], stdin=False)
        with closing(program), pytest.raises(ApiError, match=why):
            program.receive()
        thread.join()


def _answer(listening: socket.socket, frames: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            asked += connection.recv(4096)
        headers = dict(line.split(": ", 1) for line in asked.decode().split("\r\n") if ": " in line)
        key, protocol = headers["Sec-WebSocket-Key"], headers["Sec-WebSocket-Protocol"]
        lines = (
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accepted(key)}",
            f"Sec-WebSocket-Protocol: {protocol}",
        )
        connection.sendall("\r\n".join((*lines, "", "")).encode() + frames)


def _api_at(port: int) -> Api:

    return Api(Access(f"http://127.0.0.1:{port}", "jane", "a kubeconfig"), NAMESPACE, "lab")
