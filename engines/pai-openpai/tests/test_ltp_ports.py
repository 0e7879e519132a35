"""Ports of tasks on microsoft/ltp-platform, which its REST server hashes otherwise than OpenPAI's.

The numbers are those of the JavaScript of its REST server, run with Node.
"""

import json
from typing import Any

import pytest

from pai_openpai.framework import BadFramework, read_framework
from pai_openpai.ltp_ports import ltp_port
from pai_pod.ports import hashed_port
from tests.framework_object import Pod, framework_object, hashed, role_status, task_role

UID = "7c1a8a4e-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("pod", "label", "number", "first", "end", "port"),
    [
        (UID, "ssh", 0, 15000, 40000, 38688),
        (UID, "http", 0, 15000, 40000, 35640),
        ("0b5d6e7f", "tcp", 1, 20000, 20001, 20000),
        ("0b5d6e7f", "tcp", 7, 1024, 65535, 10285),
        ("0b5d6e7f", "grpc", 999, 15000, 40001, 17489),
    ],
)
def test_a_port_is_the_one_that_its_server_shows(
    pod: str, label: str, number: int, first: int, end: int, port: int
) -> None:
    assert ltp_port(pod, label, number, first, end) == port


def ports(**role: Any) -> dict[str, tuple[int, ...]]:
    document = framework_object(
        [task_role("worker", 1, hashed(), **role)], [role_status("worker", [Pod(UID, "10.0.0.1")])]
    )
    (worker,) = read_framework(json.dumps(document).encode()).roles
    return worker.ports.ports(0, UID)


def test_the_pods_of_a_framework_tell_whose_ports_they_are() -> None:
    assert ports(volumes=["pai-vol", "host-mount", "host-log"]) == {"ssh": (38688,), "http": (35640,)}
    of_openpai = {label: (hashed_port(UID, label, 0, 15000, 40000),) for label in ("ssh", "http")}
    assert ports() == ports(volumes=[]) == of_openpai


def test_pods_that_nobody_can_tell_are_an_error() -> None:
    role = task_role("worker", 1, hashed())
    role["task"]["pod"]["spec"]["volumes"] = [{}]
    with pytest.raises(BadFramework, match=r"volumes\[0\].name"):
        read_framework(json.dumps(framework_object([role], [])).encode())
