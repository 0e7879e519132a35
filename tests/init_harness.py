"""An init container as a process on this machine: the pod volume is a folder, the bundle a small stand-in."""

import base64
import gzip
import itertools
import json
import os
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_pod.peers import Peers
from pai_pod.port_check import taken_ports
from pai_pod.ports import END, FIRST, hashed_port
from pai_runtime.engines.local import ports as local_ports
from pai_runtime.job.overrides import Overrides
from tests.fault_server import FaultServer, Reply
from tests.support import PROGRAM, cli, job

USES = "com.microsoft.pai.runtimeplugin"
CMD: Mapping[str, Any] = {
    "plugin": "cmd",
    "parameters": {"callbacks": [{"event": "taskStarts", "commands": ["echo start"]}]},
}


PROPOSED = """\
commands: ["ls  -al",  "echo hi"]
runtimePlugin:
- plugin: ssh
  parameters:
    jobssh: true
- plugin: teamwise_storage
  parameters:
    storageConfigNames:
    - confignfs
"""
"""What the proposal's Pod has in RUNTIME_CONFIG."""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """The volume of a pod whose task has the directory ``pod`` for its logs."""
    made = tmp_path / "volume"
    (made / "logs" / "pod").mkdir(parents=True)
    (made / "runtime.d").mkdir()
    return made


class PodFolder:
    """The volume of a pod, and what a platform mounts; `environment` is that of its init container.

    The bundle is a stand-in, because a real one takes ten seconds to make and nothing in it is run here.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.volume = folder / "volume"
        self.mounted = folder / "mounted"
        self.bundle = folder / "bundle"
        for each in (self.volume, self.mounted, self.bundle):
            each.mkdir(parents=True, exist_ok=True)
        (self.bundle / "bundle.json").write_text('{"digest": "sha256:0"}')
        (self.bundle / "runtime").write_text("#!/bin/sh\n")
        self.environment = {
            "PAI_WORK_DIR": str(self.volume),
            "PAI_CONFIG_DIR": str(self.mounted / "config"),
            "PAI_SECRET_DIR": str(self.mounted / "secrets"),
            "PAI_USER_EXTENSION_SECRET_DIR": str(self.mounted / "user-extension-secrets"),
            "PAI_TOKEN_SECRET_DIR": str(self.mounted / "token-secrets"),
            "PAI_RUNTIME_BUNDLE": str(self.bundle),
            "FC_POD_UID": "pod-uid",
            **environment,
        }

    def init(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return cli("init", env={**self.environment, **environment})

    def start(self, wrap: Sequence[str] = (), **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*wrap, PROGRAM, "init"],
            env={**os.environ, **self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def logs(self) -> Path:
        return self.volume / "logs" / (self.environment["FC_POD_UID"] or "pod")

    @property
    def log(self) -> str:
        return (self.logs / "init.log").read_text()

    @property
    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads((self.volume / "runtime.d" / "plan.json").read_text())
        return plan

    @property
    def handed_over(self) -> dict[str, str]:
        document = json.loads((self.volume / "runtime.d" / "private" / "secrets.json").read_text())
        secrets: dict[str, str] = document["secrets"]
        return secrets

    def mount(self, path: str, content: Any) -> Path:
        """A file that the platform mounts: YAML, unless it is text."""
        file = self.mounted / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return file


def folded(text: str) -> str:
    """What a program finds in a variable that a Pod gives a text with ``>-``."""
    value: str = yaml.safe_load(f"value: >-\n{textwrap.indent(text, '  ')}")["value"]
    return value


def config(*commands: str, uses: Sequence[Mapping[str, Any]] = ()) -> str:
    """What RUNTIME_CONFIG has, as it is written."""
    return yaml.safe_dump({"commands": list(commands), "runtimePlugin": list(uses)}, sort_keys=False)


def pod_job(**fields: Any) -> dict[str, Any]:
    """A job as `tests.support.job`, whose image no registry is asked for."""
    given = job(**fields)
    given["prerequisites"][0]["uri"] = "localhost:1/image"  # where nobody listens
    return given


def framework(given: Mapping[str, Any], *, compressed: bool = False, hosts: bool = True) -> dict[str, Any]:
    """The object of FrameworkController for a job; its tasks have addresses if it has `hosts`."""
    roles = {name: role.get("instances", 1) for name, role in given["taskRoles"].items()}
    statuses = [
        {
            "name": _converted(name),
            "taskStatuses": [
                {
                    "index": index,
                    "attemptStatus": {
                        "podHostIP": f"10.0.{number}.{index}" if hosts else None,
                        "podUID": _pod_uid(name, index) if hosts else None,
                    },
                }
                for index in range(count)
            ],
        }
        for number, (name, count) in enumerate(roles.items())
    ]
    status = (
        {
            "taskRoleStatusesCompressed": base64.b64encode(
                gzip.compress(json.dumps(statuses).encode())
            ).decode()
        }
        if compressed
        else {"taskRoleStatuses": statuses}
    )
    return {
        "metadata": {
            "name": "framework",
            "uid": "framework-uid",
            "annotations": {"config": yaml.safe_dump(dict(given))},
        },
        "spec": {"taskRoles": [_role(name, count) for name, count in roles.items()]},
        "status": {"attemptStatus": status},
    }


@cache
def _pod_uid(role: str, index: int) -> str:
    """One from which ports follow that are free here, and that no client of this machine is given."""
    for number in itertools.count():
        uid = f"uid-{role}-{index}-{number}"
        ports = {label: [hashed_port(uid, label, 0, FIRST, END)] for label in ("ssh", "http")}
        if max(ports["ssh"] + ports["http"]) < local_ports.END and not taken_ports(ports):
            return uid
    raise AssertionError


def framework_variables(role: str, index: int = 0) -> dict[str, str]:
    """What FrameworkController and the platform set in the pod of a task."""
    return {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": "framework",
        "FC_FRAMEWORK_UID": "framework-uid",
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
        "FC_TASKROLE_NAME": _converted(role),
        "FC_TASK_INDEX": str(index),
        "FC_POD_UID": _pod_uid(role, index),
        "PAI_FRAMEWORK_NAME": "me~test",
        "PAI_JOB_NAME": "me~test",
        "PAI_USER_NAME": "me",
        "PAI_CURRENT_TASK_ROLE_NAME": role,
        "GANG_ALLOCATION": "true",
    }


@contextmanager
def api_server(document: Any, status: int = 200) -> Iterator[str]:
    """A stand-in for the API server, as no cluster can be had here; its address."""
    with FaultServer(Reply(status, json.dumps(document).encode())) as server:
        yield server.url


def _role(name: str, count: int) -> dict[str, Any]:
    ports = {
        "schedulePortStart": 15000,
        "schedulePortEnd": 40000,
        "ports": {"ssh": {"count": 1}, "http": {"count": 1}},
    }
    annotations = {"rest-server/port-scheduling-spec": json.dumps(ports)}
    return {
        "name": _converted(name),
        "taskNumber": count,
        "task": {"pod": {"metadata": {"annotations": annotations}}},
    }


def _converted(role: str) -> str:
    return role.replace("_", "").lower()


HOSTS = {"worker": "localhost", "ps_server": "localhost"}
PEERS = Peers("run", "alice", gang=False, barrier_seconds=600, hosts=HOSTS)
CHANGED = Overrides(
    {"word": "other"}, {"worker": 3}, strict_callbacks=True, environment={"MODE": "fast"}
).to_json()
RUN_SECRET = "ab" * 32
WORKER = pod_job()["taskRoles"]["worker"]
JOB = pod_job(
    taskRoles={
        "worker": {**WORKER, "instances": 2, "commands": ["echo <% $parameters.word %> <% $secrets.key %>"]},
        "ps_server": WORKER,
    },
    parameters={"word": "job"},
    secrets="******",
    defaults={"virtualCluster": "research"},
)


def run_pod(
    folder: Path,
    job: Mapping[str, Any] | str = JOB,
    hosts: Mapping[str, str] = HOSTS,
    *,
    gang: bool = False,
    seconds: float = 600,
    **environment: str,
) -> PodFolder:
    """The pod of worker 1, as the engine gives it a job."""
    pod = PodFolder(
        folder,
        **{
            "FC_POD_UID": "",
            "PAI_CODE_DIR": str(folder / "mounted" / "code"),
            "PAI_USER_EXTENSION_SECRET_DIR": str(folder / "mounted" / "secrets"),
            "PAI_CURRENT_TASK_ROLE_NAME": "worker",
            "PAI_TASK_INDEX": "1",
            "PAI_POD_NAME": "run-worker-0-1-x7k2p",
            "PAI_POD_UID": "pod-uid",
            "PAI_POD_NAMESPACE": "research",
            "PAI_JOBSET_UID": "jobset-uid",
            "PAI_JOB_ATTEMPT": "2",
            "PAI_TASK_ATTEMPT": "0" if gang else "3",
            **environment,
        },
    )
    peers = replace(PEERS, gang=gang, barrier_seconds=seconds, hosts=hosts)
    pod.mount("config/job_config.yaml", job)
    pod.mount("config/peers.json", json.dumps(peers.to_json()))
    pod.mount("secrets/secrets.yaml", {"key": "sesame"})
    pod.mount("secrets/userExtensionSecrets.yaml", {"run": RUN_SECRET})
    return pod


def address(number: int) -> str:
    """One that no other process of tests has."""
    return f"127.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250}.{number}"
