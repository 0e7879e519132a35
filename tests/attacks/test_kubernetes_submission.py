"""A submission that is ended at each point: nothing is left, or what is left can be seen and removed."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_kubernetes.api import paths
from tests.kubernetes.api_server import ApiServer, Fault
from tests.small_cluster import write_profiles
from tests.support import PROGRAM, cli, job, write_job

pytestmark = pytest.mark.process

NAMESPACE = "team-a"
SECRET = "hunter2-and-more"
POINTS = ["jobsets.jobset.x-k8s.io", "secrets", "configmaps"]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(namespace=NAMESPACE) as server:
        yield server


@pytest.fixture
def path(tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job; the profile ``lab`` is of the server."""
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    status = {"allocatable": capacity, "capacity": capacity}
    server.put(paths.nodes(), {"kind": "Node", "metadata": {"name": "node-1"}, "status": status})
    kubeconfig = str(server.kubeconfig(tmp_path))
    profile = {"engine": "kubernetes", "kubeconfig": kubeconfig, "runtimeImage": "r/p:1"}
    write_profiles(tmp_path / "config", f"  lab: {json.dumps(profile)}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return write_job(tmp_path, job(secrets={"key": SECRET}))


def ended_at(server: ApiServer, path: Path, resource: str, number: int) -> subprocess.Popen[str]:
    """A submission that gets a signal while it waits for an answer."""
    plural = resource.partition(".")[0]

    def has_come() -> bool:
        created = [each for each in server.requests if each.verb == "create" and "dryRun" not in each.query]
        return any(each.kind.endswith(f"/{plural}") for each in created)

    argv = [str(PROGRAM), "run", str(path), "--on", "lab", "--detach"]
    server.arm(Fault(), "create", resource)  # which is for the dry run
    server.arm(Fault(silent=True), "create", resource)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    server.wait_for(has_come)
    process.send_signal(number)
    return process


@pytest.mark.parametrize(
    ("resource", "number"), list(zip(POINTS, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], strict=True))
)
def test_a_signal_takes_back_what_was_created(
    server: ApiServer, path: Path, resource: str, number: int
) -> None:
    with ended_at(server, path, resource, number) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert SECRET not in said
    for collection in (paths.jobsets, paths.secrets, paths.config_maps):
        assert server.list(collection(NAMESPACE)) == []


@pytest.mark.parametrize("resource", POINTS[1:])
def test_what_is_left_of_a_submission_that_was_killed_can_be_seen_and_removed(
    server: ApiServer, path: Path, resource: str
) -> None:
    with ended_at(server, path, resource, signal.SIGKILL) as process:
        process.communicate(timeout=60)
    (listed,) = json.loads(cli("ps", "--on", "lab", "--json").stdout)
    name = listed["run"]
    assert cli("rm", name, "--on", "lab").returncode == 2
    assert cli("stop", name, "--on", "lab").returncode == 0
    ended = cli("rm", name, "--on", "lab")
    assert ended.returncode == 0, ended.stderr
    for collection in (paths.jobsets, paths.secrets, paths.config_maps):
        assert server.list(collection(NAMESPACE)) == []


def test_two_who_stop_a_run_at_once_both_have_stopped_it(server: ApiServer, path: Path) -> None:
    name = cli("run", path, "--on", "lab", "--detach").stdout.strip()
    argv = [str(PROGRAM), "stop", name, "--on", "lab"]
    both = [subprocess.Popen(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    jobset = server.get(paths.jobsets(NAMESPACE, name))
    assert jobset is not None
    assert jobset["spec"]["suspend"] is True


def test_a_secret_is_sent_to_secrets_alone(server: ApiServer, path: Path) -> None:
    ended = cli("run", path, "--on", "lab", "--detach", env={"PAI_DEBUG": "1", "URLLIB3_DEBUG": "1"})
    assert ended.returncode == 0, ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    sent = [each for each in server.requests if each.document is not None]
    assert {each.verb for each in sent} == {"create"}
    for each in sent:
        assert SECRET not in json.dumps(each.document) + each.path + json.dumps(each.query)
        if each.kind != "/api/v1/secrets":
            assert "aHVudGVyMi" not in json.dumps(each.document)
