"""The pods of runs on Kubernetes, as the engine renders them, run for real."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_kubernetes.profile import Delivery, KubernetesProfile, MountedStorage, Storage
from pai_pod.runtime_log import KEPT
from pai_pod.told_variables import is_told, read_told
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import RunRequest
from pai_task.exit_codes import INIT_GANG_TIMEOUT
from tests.all_plugins import EXAMPLE as ALL_PLUGINS
from tests.all_plugins import repository
from tests.containers.cluster import Cluster, started_cluster
from tests.containers.kubelet import Pod
from tests.containers.pod import PATH
from tests.containers.this_machine import runtime_image
from tests.containers.volumes import Image, Object
from tests.kubernetes.rendering import render_file
from tests.support import PROGRAM, ROOT, cli, content, job, until, write_job

pytestmark = [pytest.mark.process, pytest.mark.needs("iproute2", "dnsmasq-base")]

_DEMO = ROOT / "examples" / "demo.yaml"
_BETWEEN = re.compile(r"\[PAI_RUNTIME_ERROR_START\]\n(.*)\[PAI_RUNTIME_ERROR_END\]\n", re.DOTALL)
_ENDED = {"init": 0, "app": 0, "runtime-log": 0}
_SECRET = "w0rld-s3cret"


@pytest.fixture
def cluster(tmp_path: Path, bundle: Path, image: Callable[[str], Path]) -> Iterator[Cluster]:
    """One with the images that these jobs name; python's is this machine, with what the tests need."""
    runtime = runtime_image(bundle, tmp_path / "places")
    images = {
        "pai-runtime": runtime,
        "python:3.12": Image(
            runtime.root, environment={"PATH": f"{PROGRAM.parent}:{PATH}"}, mounts=runtime.mounts
        ),
        "example/image": Image(image("busybox"), environment={"PATH": PATH, "OF_IMAGE": "yes"}),
        "example/ordinary": Image(image("scratch"), environment={"PATH": PATH}, user=1000),
    }
    storages = {name: tmp_path / name for name in ("results", "output")}
    for path in storages.values():
        path.mkdir()
        path.chmod(0o777)
    with started_cluster(tmp_path / "cluster", images, storages) as started:
        yield started


def _objects(
    job_file: Path, *, delivery: Delivery = "imageVolume", code: Path | None = None
) -> list[dict[str, Any]]:
    """What is created for a job, as the API server has it: of JSON."""
    profile = KubernetesProfile(
        "lab",
        "pai-runtime",
        delivery=delivery,
        storages={"results": Storage("results", claim="results")},
        output=MountedStorage(Storage("output", claim="output")),
    )
    request = RunRequest("alice", code=Code(code) if code else None)
    rendered = render_file(job_file, profile, request=request)
    created: list[dict[str, Any]] = json.loads(json.dumps([*rendered.objects, *rendered.secrets]))
    return created


def _record(pod: Pod) -> dict[str, Any]:
    """The exit record, which is the termination message."""
    found = _BETWEEN.fullmatch(pod.message("app"))
    assert found, pod.message("app")
    record: dict[str, Any] = yaml.safe_load(found[1])
    return record


def _runtime_log(pod: Pod) -> str:
    """The runtime's log, of which the sidecar prints all that there is."""
    (log,) = (pod.volumes.path("pai-vol") / "logs").glob("*/runtime.log")
    printed = [line for line in pod.log("runtime-log").split("\n") if not is_told(line.encode())]
    assert "\n".join(printed) == log.read_bytes().decode()
    return "\n".join(line.partition("[openpai-runtime] ")[2] for line in printed)


def _check_no_secret(secret: str, pods: Sequence[Pod]) -> None:
    """It is in no log of a container, in no message, and in no file that is left on volumes of a pod."""
    for pod in pods:
        for name in pod.codes:
            assert secret not in pod.log(name) + pod.message(name), name
        for path in chain(*(pod.volumes.path(name).rglob("*") for name in ("pai-vol", "pai-output"))):
            if path.is_file() and not path.is_symlink():
                assert secret.encode() not in path.read_bytes(), path


def test_the_tasks_of_a_job_wait_for_each_other_and_talk_over_the_network(cluster: Cluster) -> None:
    cluster.create(_objects(_DEMO, delivery="copy"))
    cluster.start("worker")
    for index in (0, 1):
        cluster.pods["worker", index].wait_until_said("init", "server/0")
    cluster.start("server")
    ended = cluster.wait()
    assert ended == dict.fromkeys(cluster.pods, _ENDED)
    server = cluster.pods["server", 0]
    assert "must know the token ******\n" in server.log("app")
    assert "all workers together: distance = 3.95 * speed -17.74\n" in server.log("app")
    for index in (0, 1):
        worker = cluster.pods["worker", index]
        assert "the task ended as ok with exit code 0\n" in _runtime_log(worker)
        assert _record(worker)["exitCode"] == 0
        assert read_told(worker.log("runtime-log").encode())["CARS"]["value"].endswith("cars.csv")
    _check_no_secret("an-open-secret", list(cluster.pods.values()))


def test_a_pod_ends_soon_after_its_task_once_all_have_passed_the_barrier(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create(_objects(write_job(tmp_path, job(worker={"instances": 3, "commands": ["true"]}))))
    cluster.start()
    assert cluster.wait() == dict.fromkeys(cluster.pods, _ENDED)
    for pod in cluster.pods.values():
        assert pod.ended["runtime-log"] - pod.ended["app"] < KEPT / 2


@pytest.mark.needs("openssh-server", "openssh-client")
def test_all_built_in_plugins_take_part_in_one_job(cluster: Cluster, tmp_path: Path) -> None:
    text = ALL_PLUGINS.read_text("utf-8").replace("/path/to/model", str(repository(tmp_path)))
    cluster.create(_objects(write_job(tmp_path, text)))
    cluster.start()
    first, second, third = (cluster.pods["worker", index] for index in range(3))
    assert first.wait() == _ENDED, {name: first.log(name) for name in first.codes}
    second.stop()  # as the end of the job does
    assert cluster.wait() == {
        ("worker", 0): _ENDED,
        ("worker", 1): {**_ENDED, "app": 143},
        ("worker", 2): {**_ENDED, "app": 70},
    }
    line = "2 workers together: distance = 4.09 * speed -16.44\n"
    assert f"{line}TensorBoard shows fit\n" in first.log("app"), "code from git, data over ssh"
    assert (tmp_path / "results" / "line.txt").read_text().startswith(line), "the storage"
    assert _record(third)["matchedUserLogString"] == "the fit diverges in round 6"
    for pod in cluster.pods.values():
        for said in ("cloned ", "results is at /mnt/results", "all 3 tasks answer", "the task ended as"):
            assert said in _runtime_log(pod) + pod.log("init"), said


def test_a_failed_task_is_held_and_its_pod_has_the_reason(cluster: Cluster, tmp_path: Path) -> None:
    prerequisite = {"name": "own", "type": "dockerimage", "uri": "example/ordinary"}
    document = job(
        worker={
            "dockerImage": "own",
            "commands": ["id -u", "echo 'RuntimeError: CUDA out of memory.'; exit 1"],
        },
        prerequisites=[prerequisite],
        extras={"holdOnFailure": "10m"},
    )
    rendered = _objects(write_job(tmp_path, document))
    _app(rendered)["securityContext"]["readOnlyRootFilesystem"] = True
    cluster.create(rendered)
    cluster.start()
    pod = cluster.pods["worker", 0]
    task = pod.volumes.path("pai-vol") / "runtime.d"
    until(lambda: b'"held"' in content(task / "state.json"))
    assert pod.running("app").exec("/usr/local/pai/bundle/applets/id", "-u") == "1000\n"
    (task / "release").touch()
    assert pod.wait() == {"init": 0, "app": 226, "runtime-log": 0}
    record = _record(pod)
    assert (record["exitCode"], record["originUserExitCode"]) == (226, 1)
    assert pod.log("app") == "1000\nRuntimeError: CUDA out of memory.\n"
    assert "held" in _runtime_log(pod)


def test_a_task_that_is_deleted_runs_its_exit_callbacks(cluster: Cluster, tmp_path: Path) -> None:
    callbacks = [{"event": "taskExits", "commands": ["echo exits $PAI_TASK_OUTCOME"]}]
    document = job(
        worker={"commands": ["trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"]},
        extras={
            "com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "parameters": {"callbacks": callbacks}}]
        },
    )
    cluster.create(_objects(write_job(tmp_path, document)))
    cluster.start()
    pod = cluster.pods["worker", 0]
    pod.wait_until_said("app", "ready\n")
    pod.stop()
    assert pod.wait() == {"init": 0, "app": 143, "runtime-log": 0}
    assert "saved\n" in pod.log("app")
    assert _runtime_log(pod).endswith("exits cancelled\n")
    assert _record(pod)["outcome"] == "cancelled"
    (kept,) = (tmp_path / "output").glob("*/*/worker/0/0")
    assert (kept / "user.log").read_text().startswith("ready\nsaved\n")
    assert (kept / "runtime.log").read_text().endswith("exits cancelled\n")
    assert yaml.safe_load((kept / "exit.yaml").read_text()) == _record(pod)
    assert "PAI_TASK_INDEX" in json.loads((kept / "variables.json").read_text())
    assert "taskExits" in (kept / "events.jsonl").read_text()


def test_a_gang_that_is_not_complete_does_not_start(cluster: Cluster, tmp_path: Path) -> None:
    role = {
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        "commands": ["true"],
    }
    document = job(taskRoles={"worker": role, "server": {**role, "instances": 2}})
    rendered = _objects(write_job(tmp_path, document))
    (files,) = (each["data"] for each in rendered if "peers.json" in each.get("data", {}))
    files["peers.json"] = json.dumps({**json.loads(files["peers.json"]), "barrierSeconds": 2})
    cluster.create(rendered)
    cluster.start("worker")
    pod = cluster.pods["worker", 0]
    assert pod.wait() == {"init": INIT_GANG_TIMEOUT}
    last = pod.log("init").splitlines()[-1]
    assert "[ERROR]" in last
    assert "server/0, server/1" in last
    assert pod.log("app") == ""


_SHOWS = """\
env
cat data.txt
sha256sum model.bin
echo the secret is <% $secrets.who %>
echo ready
until [ -e /mnt/results/go ]; do sleep 0.05; done
"""


def test_a_task_has_the_variables_and_the_code_that_it_has_locally_and_shows_no_secret(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data.txt").write_text("a file of the code\n")
    model = os.urandom(3 << 20)
    (tmp_path / "code" / "model.bin").write_bytes(model)
    document = job(
        worker={"instances": 1, "commands": _SHOWS.splitlines()},
        secrets={"who": _SECRET},
        extras={"code": "code", "storages": [{"name": "results"}]},
    )
    path = write_job(tmp_path, document)
    rendered = _objects(path, code=tmp_path / "code")
    assert all(_SECRET not in json.dumps(each) for each in rendered if each["kind"] != "Secret")
    cluster.create(rendered)
    cluster.start()
    pod = cluster.pods["worker", 0]
    pod.wait_until_said("app", "ready\n")
    processes = list(pod.processes())
    assert len(processes) > 2, "those of the sidecar, of the runtime and of the command"
    for process in processes:
        assert _SECRET.encode() not in content(process / "cmdline") + content(process / "environ")
    (tmp_path / "results" / "go").touch()
    assert pod.wait() == _ENDED
    shown = pod.log("app")
    digest = sha256(model).hexdigest()
    assert f"a file of the code\n{digest}  model.bin\nthe secret is ******\nready\n" in shown
    _check_no_secret(_SECRET, [pod])
    ended = cli("run", path, "--storage", f"results={tmp_path / 'results'}", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    local = _variables((tmp_path / "run/worker/0/logs/user-all/current").read_text())
    in_pod = _variables(shown)
    assert in_pod == local | {"FC_POD_NAME"}
    assert "OF_IMAGE=yes\n" in shown
    assert f"PAI_HOST_IP_worker_0={pod.sandbox.address}\n" in shown


def _variables(output: str) -> set[str]:
    """The names of those that are the platform's, in the output of ``env``."""
    return set(re.findall("^((?:PAI|FC|NVIDIA)_[A-Za-z0-9_]+)=", output, re.MULTILINE))


def _app(rendered: Sequence[Object]) -> dict[str, Any]:
    """The task's container of the only role."""
    (jobset,) = (each for each in rendered if each["kind"] == "JobSet")
    (replicated,) = jobset["spec"]["replicatedJobs"]
    app: dict[str, Any] = replicated["template"]["spec"]["template"]["spec"]["containers"][0]
    return app
