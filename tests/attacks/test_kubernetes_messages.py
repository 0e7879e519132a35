"""An API server, or one of its webhooks, that quotes in its messages what it was sent."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pai_kubernetes.api import paths
from pai_network.authorization import basic
from pai_runtime.engine.messages import hide, hide_authorization, server_text
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import ApiServer, Fault
from tests.small_cluster import write_profiles
from tests.support import cli, job, write_job

NAMESPACE = "team-a"
SECRET = "hunter2&and\"more'than<that>"
TOKEN = "token-that-nobody-may-see"
QUOTED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "Go": lambda text: (
        json.dumps(text).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    ),
    "base64": lambda text: base64.b64encode(json.dumps({"key": text}).encode()).decode(),
    "cut": lambda text: "x" * 985 + text,
}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(namespace=NAMESPACE, tokens=[TOKEN]) as server:
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        status = {"allocatable": capacity, "capacity": capacity}
        server.put(paths.nodes(), {"kind": "Node", "metadata": {"name": "node-1"}, "status": status})
        yield server


@pytest.fixture
def path(tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    kubeconfig = str(server.kubeconfig(tmp_path))
    profile = {"engine": "kubernetes", "kubeconfig": kubeconfig, "runtimeImage": "r/p:1"}
    write_profiles(tmp_path / "config", f"  lab: {json.dumps(profile)}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return write_job(tmp_path, job(secrets={"key": SECRET}))


def hidden(said: str) -> None:
    for value in (SECRET, TOKEN):
        assert value not in said
        assert value[:8] not in said
        assert base64.b64encode(value.encode())[:8].decode() not in said


@pytest.mark.process
@pytest.mark.parametrize(
    ("resource", "quote"),
    [("secrets", min(QUOTED)), *(("jobsets.jobset.x-k8s.io", each) for each in QUOTED)],
)
def test_a_refusal_that_quotes_an_object_shows_no_secret_and_no_login(
    server: ApiServer, path: Path, resource: str, quote: str
) -> None:
    said = f"Invalid value: {QUOTED[quote](SECRET)}: and a login {QUOTED[quote](TOKEN)}"
    warning = said.replace("\\", "\\\\").replace('"', '\\"')
    cause = {"field": "spec.replicatedJobs[0].template", "message": said}
    for fault in (
        Fault(422, "Invalid", said, [cause]),
        Fault(403, "Forbidden", said),
        Fault(400, "Bad", said),
    ):
        server.arm(Fault(headers={"Warning": f'299 - "{warning}"'}), "create", resource)  # the dry run
        server.arm(fault, "create", resource)
        ended = cli("run", path, "--on", "lab", "--detach")
        assert ended.returncode == 2
        hidden(ended.stdout + ended.stderr)
        server.arm(fault, "create", resource)
        ended = cli("validate", path, "--on", "lab", "--json")
        hidden(ended.stdout + ended.stderr)


@pytest.mark.process
def test_no_word_about_a_run_shows_the_login(server: ApiServer, path: Path) -> None:
    condition = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": f"said {TOKEN}"}
    jobset = run_objects.jobset()
    server.put(paths.jobsets(NAMESPACE), {**jobset, "status": {"conditions": [condition]}})
    server.put(paths.pods(NAMESPACE), run_objects.pod(status=run_objects.running()))
    for line in (
        ["ps", "--on", "lab"],
        ["ps", run_objects.NAME, "--on", "lab"],
        ["validate", path, "--on", "lab"],
    ):
        ended = cli(*line)
        hidden(ended.stdout + ended.stderr)


def test_what_is_hidden_stays_so_where_a_text_is_cut() -> None:
    hide([SECRET, "a long value" * 1000])
    hide_authorization(basic("jane", "the password of jane"))
    for text in (
        SECRET,
        "the password of jane",
        basic("jane", "the password of jane")[6:],
        "a long value" * 1000,
    ):
        for before in (0, 90, 1590, 1600):
            assert text[:8] not in server_text("x" * before + text + "y" * 3000, 100)
    assert server_text("nothing of it", 8) == "nothing…"
