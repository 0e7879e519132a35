"""The command lines of Podman and Docker, and the devices in them; only Podman is there to run them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_container import client
from pai_container.client import LIMITS, Client, ProgramFailed, open_client
from pai_container.container import Container, run_argv
from pai_container.gpus import devices_for
from pai_runtime.engine import CannotRun
from pai_runtime.engine.local import Bind
from tests.job_harness import build
from tests.support import job

PODMAN = Client("podman", "/usr/bin/podman", is_rootless=True, limits=LIMITS)
DOCKER = Client("docker", "/usr/bin/docker", is_rootless=False, limits=LIMITS)
CONTAINER = Container(
    network="pai-1",
    host="worker-0",
    image="docker.io/library/debian:12",
    folder="/runs/a,b/worker/0",
    bundle=Path("/bundle"),
    cpu=2,
    memory=100,
    shm=64,
    devices=("nvidia.com/gpu=1",),
    ports=(15000,),
    storages=(Bind("/data", "/mnt/data", read_only=True),),
    work=None,
)


@pytest.mark.parametrize("program", [PODMAN, DOCKER])
def test_both_are_told_the_same(program: Client) -> None:
    argv = run_argv(program, CONTAINER)
    assert argv[:3] == [program.path, "run", "--rm"]
    assert argv[-2:] == ["--entrypoint=/usr/local/pai/bundle/runtime", CONTAINER.image]
    assert {
        "--name=pai-1-worker-0",
        "--network=pai-1",
        "--network-alias=worker-0",
        "--memory=100m",
        "--cpus=2",
        "--shm-size=64m",
        "--device=nvidia.com/gpu=1",
        "--publish=127.0.0.1:15000:15000",
        "--mount=type=bind,source=/bundle,destination=/usr/local/pai/bundle,readonly",
        '--mount=type=bind,"source=/runs/a,b/worker/0","destination=/runs/a,b/worker/0"',
        "--mount=type=bind,source=/data,destination=/mnt/data,readonly",
    } <= {*argv}


def test_only_podman_is_told_to_keep_proxies_to_itself() -> None:
    assert {*run_argv(PODMAN, CONTAINER)} - {*run_argv(DOCKER, CONTAINER)} == {
        PODMAN.path,
        "--http-proxy=false",
    }


def test_what_cannot_be_limited_is_not_asked_for() -> None:
    argv = run_argv(replace(PODMAN, limits=frozenset()), CONTAINER)
    assert not [each for each in argv if each.startswith(("--memory", "--cpus"))]


PODMAN_INFO: Mapping[str, Any] = {
    "host": {"security": {"rootless": True}, "cgroupVersion": "v2", "cgroupControllers": ["memory", "pids"]}
}
DOCKER_INFO: Mapping[str, Any] = {
    "MemoryLimit": True,
    "CpuCfsQuota": False,
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"],
}


@pytest.mark.parametrize(("kind", "told"), [("podman", PODMAN_INFO), ("docker", DOCKER_INFO)])
def test_what_they_say_of_the_machine_is_read(kind: str, told: Mapping[str, Any]) -> None:
    assert client._OPEN[kind]("/path", told) == Client(
        kind, "/path", is_rootless=True, limits=frozenset(["memory"])
    )


def test_limits_need_the_second_version_of_cgroups_without_root() -> None:
    told = {"host": {**PODMAN_INFO["host"], "cgroupVersion": "v1"}}
    assert client._podman("/path", told).limits == frozenset()


def test_a_docker_without_its_server_is_said() -> None:
    with pytest.raises(ProgramFailed, match="Cannot connect"):
        client._docker("/path", {"ServerErrors": ["Cannot connect to the Docker daemon"]})


@pytest.mark.parametrize(
    ("stderr", "shown"),
    [
        (b"time=1 level=warning\nError: no such image\n", "no such image"),
        (
            b"docker: Error response from daemon: no.\nSee 'docker run --help'.\n",
            "docker: Error response from daemon: no.",
        ),
        (b"first\nlast \x1b[31m\n", "last \\x1b[31m"),
        (b"", ""),
    ],
)
def test_of_what_they_say_the_error_is_shown(stderr: bytes, shown: str) -> None:
    assert client.said(stderr) == shown


@pytest.mark.process
@pytest.mark.parametrize("script", ["echo '[]'", "echo nothing", "echo Error: no rights >&2; exit 125"])
def test_a_program_that_cannot_be_used_is_no_crash(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CannotRun, match="podman"):
        open_client("auto")


def of_gpus(count: int) -> Any:
    worker = job()["taskRoles"]["worker"]
    role = {**worker, "instances": 2, "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": count}}
    return build({**job(), "taskRoles": {"worker": role}})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two GPUs."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "dev").mkdir()
    for number in range(2):
        (tmp_path / f"dev/nvidia{number}").touch()
    return tmp_path


def test_tasks_get_different_gpus(machine: Path) -> None:
    (machine / "etc/cdi").mkdir(parents=True)
    (machine / "etc/cdi/nvidia.yaml").touch()
    said: list[str] = []
    assert devices_for(of_gpus(1), machine, said.append) == {
        ("worker", 0): ["nvidia.com/gpu=0"],
        ("worker", 1): ["nvidia.com/gpu=1"],
    }
    assert said == []


def test_gpus_that_are_not_described_for_containers_are_refused(machine: Path) -> None:
    with pytest.raises(CannotRun, match="nvidia-ctk"):
        devices_for(of_gpus(1), machine, print)
    assert not any(devices_for(of_gpus(0), machine, print).values())
