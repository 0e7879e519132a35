"""A hostile or broken API server, and what others in its namespace may do, seen through the real commands."""

import json
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.api import paths, watch
from pai_kubernetes.api.access import Access
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.watch import Watch
from pai_kubernetes.labels import JOBSET_NAME, ROLES, RUN
from pai_kubernetes.run.state import run_of
from pai_pod.told_variables import PREFIX
from pai_runtime.terminal.following import exit_status
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import ApiServer, Fault
from tests.local_server import LocalServer
from tests.small_cluster import write_profiles
from tests.support import PROGRAM, cli

NAMESPACE = "team-a"
NAME = run_objects.NAME
TOKEN = "token-that-nobody-may-see"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e"
EMPTY_PAGE = json.dumps({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}).encode()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(namespace=NAMESPACE, tokens=[TOKEN]) as server:
        yield server


@pytest.fixture
def lab(tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = {
        "engine": "kubernetes",
        "kubeconfig": str(server.kubeconfig(tmp_path)),
        "runtimeImage": "r/p:1",
    }
    write_profiles(tmp_path / "config", f"  lab: {json.dumps(profile)}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def put_run(server: ApiServer, status: dict[str, Any] | None = None) -> None:
    server.put(paths.jobsets(NAMESPACE), run_objects.jobset())
    server.put(paths.pods(NAMESPACE), run_objects.pod(status=status or run_objects.running()))


class _Pages(BaseHTTPRequestHandler):
    """Lists that never come to an end, though nothing is in them."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(EMPTY_PAGE)))
        self.end_headers()
        self.wfile.write(EMPTY_PAGE)


def test_a_list_of_empty_pages_comes_to_an_end() -> None:
    with LocalServer(_Pages) as server:
        api = Api(Access(server.url, "jane", "here"), NAMESPACE, "lab")
        with pytest.raises(ApiError) as raised:
            api.list(paths.pods(NAMESPACE))
    assert not raised.value.may_pass


def test_a_watch_keeps_no_more_objects_than_a_list(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MOST_ITEMS", 3)
    api = Api(Access(server.url, "jane", "here"), NAMESPACE, "lab")
    server.tokens = set()
    told = threading.Event()
    watched = Watch(
        api, paths.pods(NAMESPACE), on_change=lambda kind, _: told.set() if kind == "FAILED" else None
    )
    watched.start()
    server.wait_for(lambda: server.counts["watch", "/api/v1/pods"] > 0)
    for index in range(4):
        server.put(paths.pods(NAMESPACE), run_objects.pod(index=index))
    assert told.wait(60)
    assert len(watched.objects) == 3
    assert watched.error is not None


@pytest.mark.parametrize("number", [2**63, 10**400, -(10**400), 1.5, True, "9" * 500, [], None])
@pytest.mark.parametrize("field", ["deletionGracePeriodSeconds", "exitCode", "restarts"])
def test_no_number_of_any_size_breaks_the_reading(field: str, number: Any) -> None:
    jobset = run_objects.jobset(status={"restarts": number if field == "restarts" else 0})
    pod = run_objects.pod(status=run_objects.terminated(1))
    pod["metadata"] |= {"deletionTimestamp": run_objects.LATER, "deletionGracePeriodSeconds": 30}
    if field == "exitCode":
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = number
    else:
        pod["metadata"][field] = number
    run = run_of(jobset, [pod])
    json.dumps([vars(task) for task in run.tasks])


@pytest.mark.parametrize("code", [1, 255, 256, 512, 2**31, 10**400])
def test_a_job_that_failed_is_never_a_success(code: int) -> None:
    jobset = run_objects.jobset(status=run_objects.ended("Failed"))
    run = run_of(jobset, [run_objects.pod(status=run_objects.terminated(code))])
    assert exit_status(run) & 0xFF


@pytest.mark.process
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    "command", [["ps"], ["ps", NAME], ["logs", NAME, "worker/0"], ["variables", NAME, "worker/0"]]
)
def test_no_text_of_a_server_reaches_a_terminal_as_it_is(server: ApiServer, command: list[str]) -> None:
    put_run(
        server,
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": ESCAPES, "message": ESCAPES}
            ],
        },
    )
    evil = run_objects.jobset(annotations={"pai-runtime/user": ESCAPES, "pai-runtime/job": ESCAPES})
    evil["metadata"]["name"] = f"x{ESCAPES}"
    server.put(paths.jobsets(NAMESPACE), evil)
    ended = cli(command[0], "--on", "lab", *command[1:])
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.stdout + ended.stderr)
    assert "Traceback" not in ended.stderr


FAULTS = {
    "deep": Fault(body=b"[" * 1_000_000),
    "deep object": Fault(body=b'{"a":' * 200_000),
    "number": Fault(body=b'{"metadata": ' + b"9" * 100_000 + b"}"),
    "html": Fault(body=b"<html>log in here</html>"),
    "nothing": Fault(body=b""),
    "list": Fault(body=b"[]"),
    "no text": Fault(body=b"\xff\xfe\x00"),
    "strange items": Fault(body=b'{"metadata": {}, "items": [1, null, {"metadata": []}]}'),
    "strange": Fault(body=b'{"metadata": 3, "items": "all", "spec": [], "status": null}'),
    "hung up": Fault(hang_up=True),
    "redirect": Fault(status=302, headers={"Location": "http://169.254.169.254/"}, body=b""),
    "forbidden": Fault(status=403, message=ESCAPES),
    "gone": Fault(status=410),
    "conflict": Fault(status=409, reason="Conflict"),
    "strange status": Fault(status=500, body=b'{"kind":"Status","message":[],"details":7,"reason":{}}'),
}


@pytest.mark.process
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("command", ["ps", "logs", "stop", "rm", "variables"])
def test_no_answer_breaks_a_command(server: ApiServer, command: str) -> None:
    put_run(server)
    for name, fault in FAULTS.items():
        server.arm(fault, times=2)
        ended = cli(command, "--on", "lab", NAME)
        server.disarm()
        assert "Traceback" not in ended.stderr, name
        assert ended.returncode in (0, 2), (name, ended.stderr)
        assert not {"\x1b", "\x07", "\u202e"} & set(ended.stdout + ended.stderr)
        assert TOKEN not in ended.stdout + ended.stderr


TOLD = [
    b'{"A": 1}',
    b'{"A": {"source": "x", "value": ' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"A": {"source": ["\\u001b[2J"], "value": {"a": "\\u202e"}}}',
    b'{"\\u001b[2J\\nA": {"source": "\\u001b]0;x\\u0007", "value": "a\\nb\\u202e\\ud800"}}',
    b"[" * 900_000,
    b'{"A": {"source": "x", "value": ' + b"9" * 5000 + b"}}",
    b'{"\xff": 1}',
]


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_what_a_task_has_told_as_its_variables_breaks_nothing(server: ApiServer) -> None:
    put_run(server)
    peers = {"peersVersion": 1, "framework": NAME, "user": "kim", "gang": True, "barrierSeconds": 600.0}
    data = {"job_config.yaml": "", "peers.json": json.dumps({**peers, "hosts": {}})}
    server.put(paths.config_maps(NAMESPACE), {"metadata": {"name": f"{NAME}-job"}, "data": data})
    pod = run_objects.pod()["metadata"]["name"]
    statuses = set()
    for told in TOLD:
        server.log(pod, "runtime-log", PREFIX + told + b"\n")
        ended = cli("variables", "--on", "lab", NAME, "worker/0")
        assert "Traceback" not in ended.stderr, told
        assert ended.returncode == 0 or len(ended.stderr.splitlines()) == 1, told
        assert not {"\x1b", "\x07", "\u202e"} & set(ended.stdout + ended.stderr), told
        statuses.add(ended.returncode)
    assert statuses == {0, 2}


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_a_record_of_any_texts_breaks_no_analysis(server: ApiServer) -> None:
    texts: dict[str, Any] = {
        "phrase": [ESCAPES],
        "message": ESCAPES,
        "role": "other",
        "failedUse": 7,
        "errorLogs": ESCAPES,
    }
    put_run(server, run_objects.terminated(1, run_objects.record(1, **texts)))
    server.log(run_objects.pod()["metadata"]["name"], "app", ESCAPES.encode() * 1000, ended=True)
    for command in (["analyze"], ["ps"], ["ps", "--json"]):
        ended = cli(command[0], "--on", "lab", *command[1:], NAME)
        assert "Traceback" not in ended.stderr, command
        assert not {"\x1b", "\x07", "\u202e"} & set(ended.stdout + ended.stderr), command


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_the_pods_of_another_run_cannot_pass_for_those_of_this(server: ApiServer) -> None:
    put_run(server)
    forged = run_objects.pod(status=run_objects.terminated(7), failures=9)
    forged["metadata"]["labels"][JOBSET_NAME] = "other-bcdfg"  # this one the controller writes
    server.put(paths.pods(NAMESPACE), forged)
    server.log(forged["metadata"]["name"], "app", b"forged\n", ended=True)
    server.log(run_objects.pod()["metadata"]["name"], "app", b"true\n")
    shown = json.loads(cli("ps", NAME, "--on", "lab", "--json").stdout)
    assert shown["tasks"][0]["state"] == "running"
    assert cli("logs", NAME, "worker/0", "--on", "lab").stdout == "true\n"


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_a_jobset_that_is_no_run_is_neither_stopped_nor_removed(server: ApiServer) -> None:
    foreign = run_objects.jobset()
    foreign["metadata"] |= {"labels": {}, "annotations": {}}
    server.put(paths.jobsets(NAMESPACE), foreign)
    for command in ("stop", "rm"):
        assert cli(command, NAME, "--on", "lab").returncode == 2
    assert server.get(paths.jobsets(NAMESPACE, NAME)) == server.list(paths.jobsets(NAMESPACE))[0]
    assert not {"patch", "delete"} & {each.verb for each in server.requests}


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_a_run_of_ours_that_cannot_be_read_can_be_removed(server: ApiServer) -> None:
    broken = run_objects.jobset(annotations={ROLES: "broken"})
    assert broken["metadata"]["labels"][RUN] == NAME
    server.put(paths.jobsets(NAMESPACE), broken)
    ended = cli("rm", NAME, "--on", "lab")
    assert ended.returncode == 0, ended.stderr
    assert server.list(paths.jobsets(NAMESPACE)) == []


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_a_token_that_expires_while_a_run_is_followed_is_asked_for_again(
    server: ApiServer, tmp_path: Path
) -> None:
    put_run(server)
    token, asked = tmp_path / "token", tmp_path / "asked"
    plugin = tmp_path / "plugin"
    answer = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    )
    go = f"cd {shlex.quote(str(tmp_path))}"
    plugin.write_text(f"#!/bin/sh\n{go}\necho x >>asked\nprintf '{answer}' \"$(cat token)\"\n")
    plugin.chmod(0o755)
    token.write_text(TOKEN)
    server.kubeconfig(
        tmp_path,
        exec={
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        },
    )
    pod = run_objects.pod()["metadata"]["name"]
    argv = [str(PROGRAM), "logs", NAME, "worker/0", "-f", "--on", "lab"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server.log(pod, "app", b"before\n")
        assert process.stdout.readline() == "before\n"
        token.write_text("another")
        server.tokens = {"another"}
        server.break_streams()
        server.wait_for(lambda: asked.read_text().count("x") == 2)
        server.log(pod, "app", b"after\n")
        assert process.stdout.readline() == "after\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert TOKEN not in said
    assert asked.read_text().count("x") == 2


@pytest.mark.process
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("lines", [b"\x00" * 70_000 + b"\n", b"x" * 3_000_000, b"2024-99-99T99:99:99Z x\n"])
def test_a_log_of_any_bytes_is_given_as_it_is(server: ApiServer, lines: bytes) -> None:
    put_run(server)
    server.log(run_objects.pod()["metadata"]["name"], "app", lines, ended=True)
    argv = [str(PROGRAM), "logs", NAME, "worker/0", "--on", "lab"]
    assert subprocess.run(argv, capture_output=True, check=True, timeout=100).stdout == lines


@pytest.mark.process
@pytest.mark.usefixtures("lab")
def test_a_run_is_not_followed_to_a_full_disk(server: ApiServer) -> None:
    put_run(server)
    pod = run_objects.pod()["metadata"]["name"]
    server.log(pod, "app", b"x\n" * 1000)
    argv = [str(PROGRAM), "logs", NAME, "worker/0", "-f", "--on", "lab"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, timeout=100, check=False)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr
