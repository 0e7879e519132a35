"""A job in the pod that OpenPAI makes of it: what an unchanged platform finds is what it expects."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_task.exit_codes import UNEXPLAINED
from tests.containers.pod import PATH, RUNTIME_DIR, Pod
from tests.containers.runc import DOCKERS_CAPABILITIES, Ended, Mount
from tests.fault_server import FaultServer, Reply
from tests.framework_object import Pod as TaskPod
from tests.framework_object import framework_object, hashed, role_status, task_role
from tests.pods import example_pod
from tests.support import cli

pytestmark = pytest.mark.process

Image = Callable[[str], Path]

_VARIABLES = example_pod("openpai").task.environment
_CAPABILITIES = ({*DOCKERS_CAPABILITIES, "SYS_ADMIN", "IPC_LOCK", "DAC_READ_SEARCH"}) - {"MKNOD"}
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_EXIT_SPEC = """
- containerExitCode: 44
  phrase: ClusterRule
  reason: The cluster knows this line.
  solution: [Do not write it.]
  behavior: PERMANENT
  patterns:
    - userLogRegex: a known line
"""

_COMMAND = """\
cat "$PAI_GIT_DIR/data.txt"
echo "$GREETING, <% $secrets.who %>"
cp "$PAI_GIT_DIR/data.txt" /mnt/results/copy.txt
ssh worker-0 echo over ssh
"""


def _job(folder: Path, image: str, command: str) -> dict[str, Any]:
    """A job of one task, in which all built-in plugins take part."""
    callbacks = [
        {"event": "taskStarts", "commands": ["export GREETING=hello", "echo starts as $PAI_TASK_INDEX"]},
        {"event": "taskSucceeds", "commands": ["echo succeeds"]},
        {"event": "taskFails", "commands": ["echo fails"]},
        {"event": "taskExits", "commands": ["echo exits $PAI_TASK_OUTCOME $PAI_TASK_EXIT_CODE"]},
    ]
    return {
        "protocolVersion": 2,
        "name": "fit",
        "type": "job",
        "secrets": {"who": "w0rld-s3cret"},
        "prerequisites": [
            {"name": "image", "type": "dockerimage", "uri": image},
            {"name": "code", "type": "script", "plugin": "git", "repo_uri": str(folder / "model")},
            {
                "name": "greeting",
                "type": "script",
                "plugin": "cmd",
                "callbacks": callbacks,
                "require": ["code"],
            },
        ],
        "taskRoles": {
            "worker": {
                "dockerImage": "image",
                "prerequisites": ["greeting"],
                "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
                "commands": command.splitlines(),
            }
        },
        "extras": {
            "storages": [{"name": "results"}],
            "com.microsoft.pai.runtimeplugin": [
                {"plugin": "ssh", "parameters": {"jobssh": True}},
                {"plugin": "tensorboard", "parameters": {"logdir": {"fit": "events"}}},
                {"plugin": "failure_analysis"},
            ],
        },
    }


class _Cluster:
    """What a cluster has beside the pod: a repository, a storage, the API server and a registry.

    The last two are stand-ins, as none can be had here, of which each has the one answer that matters. So is
    TensorBoard, which no image of ours has: something that answers at its port.
    """

    def __init__(self, folder: Path, command: str, registry: FaultServer) -> None:
        self.folder, self.command = folder, command
        self.results, self.programs = folder / "results", folder / "programs"
        for made in (self.results, self.programs, folder / "model"):
            made.mkdir(parents=True)
        self.job = _job(folder, f"localhost:{registry.port}/team/image:1", command)
        self._commit({"data.txt": "data from git\n"})
        self._program("python3", "exit 1")
        self._program(
            "tensorboard",
            """for word; do case $word in --port=*) port=${word#--port=} ;; esac; done
            [ -z "$port" ] || exec /bin/busybox httpd -f -p "$port" -h /proc/self/fdinfo""",
        )

    def framework(self, uid: str | None) -> dict[str, Any]:
        """The Framework of the job, with its secrets masked as the platform does it."""
        config = yaml.safe_dump({**self.job, "secrets": "******"})
        status = role_status("worker", [TaskPod(uid, "127.0.0.1")])
        return framework_object([task_role("worker", 1, hashed())], [status], config=config)

    def run_locally(self) -> tuple[int, Path]:
        """The exit code of the run, and the folder of its task."""
        (self.folder / "job.yaml").write_text(yaml.safe_dump(self.job, sort_keys=False))
        (self.folder / "exit-spec.yaml").write_text(_EXIT_SPEC)
        ended = cli(
            "run",
            self.folder / "job.yaml",
            *("--storage", f"results={self.results}", "--out", self.folder / "run"),
            env={
                "PATH": f"{self.programs}:{PATH}",
                "PAI_RUNTIME_EXIT_SPEC": str(self.folder / "exit-spec.yaml"),
            },
        )
        return ended.returncode, self.folder / "run/worker/0"

    def pod(self, bundle: Path) -> Pod:
        """The pod of its task."""
        contents = {
            "job-exit-spec": {"runtime-exit-spec.yaml": _EXIT_SPEC},
            "job-secrets": {"secrets.yaml": yaml.safe_dump(self.job["secrets"])},
            "token-secrets": {"token": "t0ken-of-alice"},
        }
        return Pod(self.folder / "pod", bundle, "openpai", contents)

    def init(self, pod: Pod) -> Ended:
        """Run the init container of the pod."""
        with FaultServer(Reply(body=json.dumps(self.framework(pod.uid)).encode())) as server:
            return pod.init(KUBE_APISERVER_ADDRESS=server.url, USER_CMD=self.command)

    def run_task(self, pod: Pod, image: Path) -> Ended:
        """Run the task container of the pod."""
        mounts = [Mount(self.results, "/mnt/results"), Mount(self.programs, "/programs", read_only=True)]
        env = {"PATH": f"/programs:{PATH}"}
        return pod.run_task(image, mounts=mounts, env=env, capabilities=tuple(_CAPABILITIES))

    def _program(self, name: str, script: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def _commit(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / "model" / name).write_text(text)
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
        for argv in (
            ["init", "--quiet"],
            ["add", "."],
            [*identity, "commit", "--quiet", "--message", "Data"],
        ):
            subprocess.run(["git", "-C", self.folder / "model", *argv], check=True)


@pytest.fixture
def registry() -> Iterator[FaultServer]:
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST}
    with FaultServer(
        Reply(body=json.dumps(manifest).encode(), headers={"Content-Type": _MANIFEST})
    ) as server:
        yield server


def _comparable(text: str, folder: Path | str) -> tuple[list[str], list[str]]:
    """The lines of a ``runtime.log`` in order, and those of services, which come when they do.

    Without what differs from one place and time to the other: paths, ports, addresses.
    """
    lines = [line.partition("[openpai-runtime] ")[2] for line in text.splitlines()]
    lines = [re.sub(r"\d+(\.\d+){3}|\b\d{4,5}\b", "N", line.replace(str(folder), "FOLDER")) for line in lines]
    lines = [line for line in lines if not re.match("Accepted|Received disconnect|Disconnected", line)]
    others = [line for line in lines if not re.search("service|Server listening|Received signal", line)]
    return others, sorted({*lines} - {*others})


def _record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = yaml.safe_load((folder / "exit.yaml").read_text())
    del record["decidedAt"], record["usage"]  # as they happen to be, and what a platform says of the request
    if "errorLogs" in record:
        del record["errorLogs"]["platform"]
    return record


@pytest.mark.parametrize(
    ("command", "code"),
    [(_COMMAND, 0), ("ssh worker-0 echo over ssh\necho a known line\nexit 9", 44)],
    ids=["succeeds", "fails as the cluster's exit spec knows"],
)
def test_a_job_with_all_plugins_is_the_same_as_in_a_local_run(
    tmp_path: Path, bundle: Path, image: Image, registry: FaultServer, command: str, code: int
) -> None:
    cluster = _Cluster(tmp_path, command, registry)
    local_code, local = cluster.run_locally()
    pod = cluster.pod(bundle)
    prepared = cluster.init(pod)
    assert prepared.code == 0, prepared
    assert "WARNING" not in prepared.stdout
    shutil.rmtree(cluster.results)
    cluster.results.mkdir()
    ended = cluster.run_task(pod, image("busybox"))
    assert (ended.code, local_code) == (code, code)
    in_pod = _comparable((pod.logs / "runtime.log").read_text(), RUNTIME_DIR)
    assert in_pod == _comparable((local / "logs/runtime.log").read_text(), local)
    for log in ("user-stdout/current", "user-stderr/current", "user-all/current"):
        assert (pod.logs / log).read_bytes() == (local / "logs" / log).read_bytes()
    assert _record(pod.logs) == _record(local)
    assert (pod.logs / "exit.yaml").read_text() in pod.termination_message
    assert (pod.logs / "init.log").stat().st_mode & 0o444 == 0o444
    if code == 0:
        assert ended.stdout == "data from git\nhello, ******\nover ssh\n"
        assert (cluster.results / "copy.txt").read_text() == "data from git\n"
    for path in (path for path in (*pod.volume.rglob("*"), *pod.logs.rglob("*")) if path.is_file()):
        assert not any(secret in path.read_bytes() for secret in (b"w0rld-s3cret", b"t0ken-of-alice")), path


def test_an_exit_code_of_the_command_is_not_taken_for_one_of_the_platform(
    tmp_path: Path, bundle: Path, image: Image, registry: FaultServer
) -> None:
    cluster = _Cluster(tmp_path, "exit 250", registry)
    pod = cluster.pod(bundle)
    assert cluster.init(pod).code == 0
    assert cluster.run_task(pod, image("busybox")).code == UNEXPLAINED
    record = _record(pod.logs)
    assert (record["exitCode"], record["originUserExitCode"]) == (UNEXPLAINED, 250)
