"""Hooks of plugins in a task container: their code is in the bundle, and has to be what the plan names."""

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_task.plan import Plan, UseRecord
from tests.containers.pod import RUNTIME_DIR, Pod
from tests.init_harness import USES
from tests.job_harness import planned
from tests.support import job, write_job

pytestmark = pytest.mark.process

Image = Callable[[str], Path]


def _plan(folder: Path, command: str) -> Plan:
    """A plan in which failure analysis has a hook."""
    document = job(worker={"commands": [command]}, extras={USES: [{"plugin": "failure_analysis"}]})
    plan = planned(write_job(folder, document))["worker", 0]
    return replace(plan, folder=RUNTIME_DIR)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("busybox", {}),
        ("scratch", {"read_only": True, "user": 12345, "capabilities": ()}),
        pytest.param("musl", {}, marks=pytest.mark.needs("musl-tools")),
    ],
)
def test_failure_analysis_finds_the_reason_in_the_platforms_logs(
    pod: Pod, image: Image, tmp_path: Path, name: str, how: dict[str, Any]
) -> None:
    pod.prepare(_plan(tmp_path, "echo 'RuntimeError: CUDA out of memory.'; exit 1"))
    hostile = {"LD_PRELOAD": "/lib/ld-musl-x86_64.so.1", "LC_ALL": "POSIX"}
    ended = pod.run_task(image(name), env=hostile, **how)
    assert (ended.code, pod.record["originUserExitCode"]) == (226, 1), pod.runtime_log
    assert "CUDA out of memory" in pod.record["matchedUserLogString"]


def test_a_command_that_needs_too_much_memory_is_known_to_have_been_killed_for_it(
    pod: Pod, image: Image, tmp_path: Path
) -> None:
    pod.prepare(_plan(tmp_path, "head -c 500000000 /dev/zero | tail > /dev/null; exit 1"))
    ended = pod.run_task(image("busybox"), memory=100_000_000)
    assert pod.record["phrase"] == "HostOutOfMemory", (pod.runtime_log, ended)
    assert ended.code == pod.record["exitCode"]


@pytest.mark.parametrize(
    ("name", "how"), [("busybox", {}), ("scratch", {"read_only": True, "user": 12345, "capabilities": ()})]
)
def test_a_task_waits_for_a_server_and_knows_where_its_group_meets(
    pod: Pod, image: Image, tmp_path: Path, name: str, how: dict[str, Any]
) -> None:
    commands = ['read -r line <"$PAI_HOSTFILE"', 'echo "$line $RANK/$WORLD_SIZE $MASTER_ADDR $TF_CONFIG"']
    with socket.create_server(("127.0.0.1", 0)) as server:
        waiting = {"role": "server", "port": server.getsockname()[1]}
        uses = [{"plugin": "start_after", "parameters": waiting}, {"plugin": "distributed"}]
        document = job(worker={"commands": commands}, extras={USES: uses})
        document["taskRoles"]["server"] = document["taskRoles"]["worker"]
        plan = planned(write_job(tmp_path, document))["worker", 0]
        pod.prepare(replace(plan, folder=RUNTIME_DIR))
        ended = pod.run_task(image(name), **how)
        server.accept()[0].close()
    assert (ended.code, pod.record["outcome"]) == (0, "ok"), pod.runtime_log
    address = f"127.0.0.1:{plan.ports['distributed'][0]}"
    config = json.dumps({"cluster": {"worker": [address]}, "task": {"type": "worker", "index": 0}})
    assert f"worker-0 slots=1 0/1 127.0.0.1 {config}" in ended.stdout


def _other_digest(use: UseRecord) -> UseRecord:
    return replace(use, digest="sha256:" + 64 * "0")


def _other_version(use: UseRecord) -> UseRecord:
    return replace(use, version="9.9")


def _other_distribution(use: UseRecord) -> UseRecord:
    return replace(use, distribution="pai-cmd")


@pytest.mark.parametrize("change", [_other_digest, _other_version, _other_distribution])
def test_code_that_is_not_what_the_plan_names_does_not_run(
    pod: Pod, image: Image, tmp_path: Path, change: Callable[[UseRecord], UseRecord]
) -> None:
    plan = _plan(tmp_path, "echo 'RuntimeError: CUDA out of memory.'; exit 1")
    pod.prepare(replace(plan, uses=tuple(map(change, plan.uses))))
    assert pod.run_task(image("busybox")).code == 1
    assert any("could not analyse" in line for line in pod.runtime_log)
    assert "matchedUserLogString" not in pod.record
