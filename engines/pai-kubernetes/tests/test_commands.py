"""The real commands on a cluster: what they ask of its API, what they say, and their exit statuses."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_kubernetes.api import paths
from pai_kubernetes.labels import CANCELLED
from pai_pod.told_variables import told_line
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import WEBHOOK_AWAY, ApiServer
from tests.support import PROGRAM, cli, job, write_job

pytestmark = pytest.mark.process

NAMESPACE = "team-a"
SECRET = "do-not-tell-anybody"
UNSCHEDULABLE = "0/4 nodes are available: 4 Insufficient cpu."


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(namespace=NAMESPACE, tokens=["a-token"]) as server:
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_job(tmp_path, job(worker={"instances": 2}, secrets={"key": SECRET}))


class Controller:
    """Plays JobSet, Job and the kubelets for the run that comes first; `script` is what its tasks do."""

    def __init__(
        self, server: ApiServer, monkeypatch: pytest.MonkeyPatch, script: Callable[["Controller"], None]
    ) -> None:
        self.server = server
        self._monkeypatch = monkeypatch
        self._script = script
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def pod(self, index: int, status: dict[str, Any], node: str = "node-1") -> str:
        document = run_objects.pod("worker", index, status=status, node=node)
        self.server.put(paths.pods(NAMESPACE), document)
        return str(document["metadata"]["name"])

    def end(self, kind: str) -> None:
        self.server.change(paths.jobsets(NAMESPACE, run_objects.NAME), {"status": run_objects.ended(kind)})

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _play(self) -> None:
        self.server.wait_for(lambda: self.server.counts["watch", "/api/v1/pods"] > 0)
        name = self.server.list(paths.jobsets(NAMESPACE))[0]["metadata"]["name"]
        self._monkeypatch.setattr(run_objects, "NAME", name)
        self._script(self)


def unscheduled() -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": UNSCHEDULABLE,
    }
    return {"phase": "Pending", "conditions": [condition]}


def submitted(server: ApiServer) -> list[str]:
    return [each["metadata"]["name"] for each in server.list(paths.jobsets(NAMESPACE))]


@pytest.mark.usefixtures("lab")
def test_a_job_is_followed_to_its_end(server: ApiServer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(play: Controller) -> None:
        play.pod(0, unscheduled(), node="")
        first = play.pod(1, run_objects.running())
        server.log(first, "app", b"hello\n", ended=False)
        message = run_objects.record(3, message="the command exited with exit code 3")
        play.pod(1, run_objects.terminated(3, message))
        server.log(first, "app", b"bye\n", ended=True)
        play.end("Failed")

    play = Controller(server, monkeypatch, script)
    ended = cli("run", path, "--on", "lab")
    play.join()
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.splitlines() == ["worker/1 | hello", "worker/1 | bye"]
    assert "task worker/1, exit code 3" in ended.stderr
    (name,) = submitted(server)
    assert f"pai-runtime logs {name} worker/1 --on lab" in ended.stderr
    assert SECRET not in ended.stdout + ended.stderr


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("why", ["forbidden", "node", "gone"])
def test_output_that_cannot_be_read_is_said_at_once_and_in_the_summary(
    server: ApiServer, path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """The job itself has succeeded."""
    words = {"forbidden": "cannot get pods/log", "node": "connection refused", "gone": "gone"}
    if why == "forbidden":
        server.forbidden.add(("get", "pods/log"))
    elif why == "node":
        server.lost_nodes.add("node-1")

    def script(play: Controller) -> None:
        for index in range(2):
            pod = play.pod(index, run_objects.running())
            if why == "gone":
                server.remove_container(pod, "app")
        server.wait_for(lambda: server.counts["get", "/api/v1/pods/log"] >= (6 if why == "node" else 2))
        for index in range(2):
            play.pod(index, run_objects.terminated(0))
        play.end("Completed")

    play = Controller(server, monkeypatch, script)
    ended = cli("run", path, "--on", "lab", "--plain")
    play.join()
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    lines = ended.stderr.splitlines()
    summary = next(number for number, line in enumerate(lines) if "the job succeeded" in line)
    for part in (lines[:summary], lines[summary:]):
        told = [line for line in part if words[why] in line]
        assert 1 <= len(told) <= 2, ended.stderr
        assert all(any(task in line for line in told) for task in ("worker/0", "worker/1"))


@pytest.mark.usefixtures("lab")
def test_a_detached_run_is_listed_read_explained_and_stopped(
    server: ApiServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = yaml.safe_load(path.read_text())
    document["extras"] = {"com.microsoft.pai.runtimeplugin": [{"plugin": "distributed"}]}
    ended = cli("run", write_job(path.parent, document), "--on", "lab", "--detach")
    assert ended.returncode == 0, ended.stderr
    name = ended.stdout.strip()
    assert submitted(server) == [name]
    monkeypatch.setattr(run_objects, "NAME", name)
    pod = run_objects.pod("worker", 0, status=run_objects.running())
    server.put(paths.pods(NAMESPACE), pod)
    server.put(paths.pods(NAMESPACE), run_objects.pod("worker", 1, status=unscheduled(), node=""))
    server.log(pod["metadata"]["name"], "app", b"hello\n")

    (listed,) = json.loads(cli("ps", "--on", "lab", "--json").stdout)
    assert (listed["run"], listed["user"], listed["state"]) == (name, "ada", "running")
    shown = cli("ps", "latest", "--on", "lab", "--json")
    first, second = json.loads(shown.stdout)["tasks"]
    assert (first["state"], first["node"], second["state"]) == ("running", "node-1", "waiting")
    assert UNSCHEDULABLE in second["note"]
    assert cli("logs", name, "worker/0", "--on", "lab").stdout == "hello\n"

    told = {"PAI_TASK_INDEX": {"source": "platform", "value": "0"}}
    server.log(pod["metadata"]["name"], "runtime-log", told_line(told))
    explained = cli("variables", name, "worker/0", "--on", "lab").stdout
    assert re.search(r"^platform +PAI_TASK_INDEX=0$", explained, re.MULTILINE)
    assert re.search(rf"PAI_HOST_IP_worker_1={name}-worker-0-1\.{name}$", explained, re.MULTILINE)
    assert re.search(r"PAI_PORT_LIST_worker_1_distributed=15002$", explained, re.MULTILINE)

    assert cli("rm", name, "--on", "lab").returncode == 2
    assert cli("stop", name, "--on", "lab").returncode == 0
    jobset = server.get(paths.jobsets(NAMESPACE, name))
    assert jobset is not None
    assert jobset["spec"]["suspend"] is True
    assert CANCELLED in jobset["metadata"]["annotations"]

    for index in range(2):
        server.remove(paths.pods(NAMESPACE, run_objects.pod("worker", index)["metadata"]["name"]))
    (listed,) = json.loads(cli("ps", "--on", "lab", "--json").stdout)
    tasks = json.loads(cli("ps", name, "--on", "lab", "--json").stdout)["tasks"]
    assert (listed["state"], [task["state"] for task in tasks]) == ("cancelled", ["stopped"] * 2)
    logs = cli("logs", name, "--on", "lab")
    assert (logs.returncode, logs.stdout) == (0, "")
    assert tasks[0]["note"] in logs.stderr


@pytest.mark.usefixtures("lab")
def test_ctrl_c_leaves_the_run_and_says_how_to_go_on(
    server: ApiServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Controller(
        server, monkeypatch, lambda play: server.log(play.pod(0, run_objects.running()), "app", b"hi\n")
    )
    argv = [str(PROGRAM), "run", str(path), "--on", "lab"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "worker/0 | hi\n"
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    play.join()
    (name,) = submitted(server)
    assert process.returncode == 130
    assert f"pai-runtime logs {name} -f --on lab" in messages
    assert f"pai-runtime stop {name} --on lab" in messages


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("args", [["--dry-run"], []])
def test_a_right_that_is_missing_is_named_and_nothing_is_submitted(
    server: ApiServer, path: Path, args: list[str]
) -> None:
    server.forbidden.add(("create", "jobsets.jobset.x-k8s.io"))
    ended = cli("run", path, "--on", "lab", "--detach", *args)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "jobsets" in ended.stderr
    assert "create" in ended.stderr
    assert "nothing was started" in ended.stderr
    assert submitted(server) == []


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("args", [["ps"], ["ps", "none"], ["logs", "none"], ["stop", "none"], ["rm", "none"]])
def test_a_cluster_without_jobset_is_told_as_such(server: ApiServer, args: list[str]) -> None:
    server.installed = {each for each in server.installed if "jobset" not in str(each)}
    ended = cli(args[0], "--on", "lab", *args[1:])
    assert ended.returncode == 2
    assert "JobSet" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("name", ["none", "../pods/x", "a/b", "%2e%2e", "A B", "x" * 300, "-"])
def test_a_run_that_cannot_be_is_not_asked_for_anywhere_else(server: ApiServer, name: str) -> None:
    ended = cli("logs", "--on", "lab", "--", name)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert all(re.search(r"/namespaces/team-a/(jobsets|pods)", each.path) for each in server.requests)


@pytest.mark.usefixtures("lab", "server")
def test_what_is_rendered_asks_nobody_and_holds_no_secret(
    server: ApiServer, path: Path, tmp_path: Path
) -> None:
    ended = cli("render", path, "--on", "lab", "--secrets-manifest", "secrets.yaml")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == cli("render", path, "--on", "lab").stdout
    assert SECRET not in ended.stdout + ended.stderr
    kinds = [each["kind"] for each in yaml.safe_load_all(ended.stdout)]
    assert kinds[0] == "JobSet"
    assert "ConfigMap" in kinds
    secrets = (tmp_path / "secrets.yaml").read_text()
    assert {each["kind"] for each in yaml.safe_load_all(secrets)} == {"Secret"}
    assert server.requests == []


@pytest.mark.usefixtures("lab")
def test_what_the_api_server_refuses_is_a_problem_of_the_job(server: ApiServer, path: Path) -> None:
    field = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].image"
    server.admit = lambda target, _: (
        [{"field": field, "message": "not an allowed image"}] if "jobsets" in str(target) else []
    )
    ended = cli("validate", path, "--on", "lab", "--json")
    document = json.loads(ended.stdout)
    assert (ended.returncode, document["valid"]) == (1, False)
    (problem,) = [each for each in document["problems"] if "not an allowed image" in each["message"]]
    assert problem["field"].startswith("prerequisites")
    assert problem["line"] > 0
    assert submitted(server) == []


@pytest.mark.usefixtures("lab")
def test_a_webhook_that_is_away_for_a_moment_stops_neither_the_check_nor_the_submission(
    server: ApiServer, path: Path
) -> None:
    server.arm(WEBHOOK_AWAY, "create", "jobsets.jobset.x-k8s.io")
    checked = cli("validate", path, "--on", "lab")
    assert checked.returncode == 0, checked.stderr
    server.arm(WEBHOOK_AWAY, "create", "jobsets.jobset.x-k8s.io", times=2)
    ended = cli("run", path, "--on", "lab", "--detach")
    assert (ended.returncode, submitted(server)) == (0, [ended.stdout.strip()]), ended.stderr


@pytest.mark.usefixtures("lab")
def test_what_is_read_of_a_run_is_kept_in_an_empty_directory_or_nothing_is_submitted(
    server: ApiServer, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other").touch()
    ended = cli("run", path, "--on", "lab", "--detach", "--out", "out")
    assert (ended.returncode, submitted(server)) == (2, []), ended.stderr
    assert "is not empty" in ended.stderr


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("options", [["--task", "worker"], ["--timeout", "1h"], ["--share"]])
def test_what_kubernetes_does_not_do_is_refused_with_what_to_use_instead(
    server: ApiServer, path: Path, options: list[str]
) -> None:
    ended = cli("run", path, "--on", "lab", *options)
    assert (ended.returncode, server.requests) == (2, [])
    assert f"{options[0]} cannot be used on lab: " in ended.stderr
