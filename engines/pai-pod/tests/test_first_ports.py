"""Ports that a job names itself: `extras.firstPorts`."""

import socket
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import errors
from pai_pod.placement import single_placement
from pai_runtime.engines.local.placement import example_placement
from tests.job_harness import build, planned, validated
from tests.support import cli, job, write_job

_RESOURCES = {"cpu": 1, "memoryMB": 100, "gpu": 0, "ports": {"grpc": 2, "web": 1}}


def with_ports(first: Any, **worker: Any) -> dict[str, Any]:
    return job(extras={"firstPorts": first}, worker={"resourcePerInstance": _RESOURCES, **worker})


@pytest.mark.process
def test_each_task_has_the_next_ones(tmp_path: Path) -> None:
    path = write_job(tmp_path, with_ports({"worker": {"grpc": 8800, "http": 9000}}, instances=2))
    assert not validated(path)
    found = {
        index: {each.name: each.value for each in plan.environment}
        for (_, index), plan in planned(path).items()
    }
    assert [found[index]["PAI_CONTAINER_HOST_grpc_PORT_LIST"] for index in (0, 1)] == [
        "8800,8801",
        "8802,8803",
    ]
    assert [found[index]["PAI_CONTAINER_HOST_PORT"] for index in (0, 1)] == ["9000", "9001"]


def test_no_other_port_is_one_of_them() -> None:
    named = build(with_ports({"worker": {"grpc": 15000}}, instances=3))
    places = example_placement(named, "alice").places.values()
    ports = [port for place in places for each in place.ports.values() for port in each]
    assert len(ports) == len(set(ports)) == 3 * 5


def test_a_pod_without_a_framework_has_them_too() -> None:
    environment = {"POD_NAME": "pod", "POD_IP": "10.0.0.1"}
    usual = single_placement(build(with_ports({})), environment, "/").places["worker", 0].ports
    named = {"worker": {"grpc": usual["web"][0]}}
    ports = single_placement(build(with_ports(named)), environment, "/").places["worker", 0].ports
    assert ports["grpc"] == (usual["web"][0], usual["web"][0] + 1)
    numbers = [port for each in ports.values() for port in each]
    assert len(numbers) == len(set(numbers)) == 5


@pytest.mark.parametrize(
    ("first", "code", "field"),
    [
        ({"wroker": {}}, "no-such-task-role", "extras.firstPorts.wroker"),
        ({"worker": {"gprc": 80}}, "no-such-port", "extras.firstPorts.worker.gprc"),
        ({"worker": {"grpc": 0}}, "wrong-value", "extras.firstPorts.worker.grpc"),
        ({"worker": {"grpc": 65536}}, "wrong-value", "extras.firstPorts.worker.grpc"),
        ({"worker": {"grpc": "80"}}, "wrong-type", "extras.firstPorts.worker.grpc"),
        ({"worker": 80}, "wrong-type", "extras.firstPorts.worker"),
        ([], "wrong-type", "extras.firstPorts"),
        ({"worker": {"grpc": 65533}}, "port-range", "extras.firstPorts.worker.grpc"),
        ({"worker": {"grpc": 8800, "web": 8803}}, "port-conflict", "extras.firstPorts.worker.web"),
        ({"worker": {"web": 8801, "grpc": 8800}}, "port-conflict", "extras.firstPorts.worker.web"),
    ],
)
def test_what_cannot_be_is_refused(first: Any, code: str, field: str, tmp_path: Path) -> None:
    found = errors(validated(write_job(tmp_path, with_ports(first, instances=2))))
    assert [(each.code, each.field) for each in found] == [(code, field)]


def test_two_roles_cannot_have_the_same(tmp_path: Path) -> None:
    document = with_ports({"worker": {"web": 8800}, "other": {"web": 8801}}, instances=2)
    document["taskRoles"]["other"] = document["taskRoles"]["worker"]
    (problem,) = errors(validated(write_job(tmp_path, document)))
    assert (problem.code, problem.field) == ("port-conflict", "extras.firstPorts.other.web")


@pytest.mark.process
def test_all_that_are_taken_are_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as other:
        taken = sorted(each.getsockname()[1] for each in (one, other))
        first = {"worker": {"ssh": taken[0], "web": taken[1]}}
        path = write_job(tmp_path, with_ports(first))
        done = cli("run", path, "--out", tmp_path / "run")
        assert done.returncode == 2
        assert all(f"{port} (" in done.stderr for port in taken)
        assert not (tmp_path / "run").exists()
