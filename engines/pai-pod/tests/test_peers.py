"""``peers.json``: how the tasks of a run on a cluster reach each other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_pod.peers import Peers
from pai_pod.placement import UnknownTask, peers_placement
from pai_runtime.plan.environment import JobEnvironment
from tests.job_harness import build
from tests.support import job

FOLDER = "/usr/local/pai/runtime.d"
HOSTS = {"worker": "run-w-0-{index}.run", "ps_server": "run-p-0-{index}.run"}
PEERS = Peers("run", "alice", gang=True, barrier_seconds=600, hosts=HOSTS)
WORKER = job()["taskRoles"]["worker"]
PORTS = {"resourcePerInstance": {**WORKER["resourcePerInstance"], "ports": {"mpi": 2}}}
JOB = build(
    job(
        taskRoles={"worker": {**WORKER, **PORTS, "instances": 2}, "ps_server": WORKER},
        extras={"firstPorts": {"worker": {"mpi": 15001}}},
    )
)

_texts = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)


@given(
    st.builds(
        Peers,
        _texts,
        _texts,
        st.booleans(),
        st.floats(0.1, 86400) | st.integers(1, 86400),
        st.dictionaries(_texts, _texts.filter(bool)),
        _texts,
    )
)
def test_what_is_written_is_read(peers: Peers) -> None:
    assert Peers.from_json(json.loads(json.dumps(peers.to_json()))) == peers


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, "peersVersion"),
        ([], "peersVersion"),
        ({}, "peersVersion"),
        ({"peersVersion": 2}, "peersVersion"),
        ({"framework": 1}, "framework"),
        ({"framework": "a\nb"}, "framework"),
        ({"user": None}, "user"),
        ({"gang": "true"}, "gang"),
        ({"barrierSeconds": 0}, "barrierSeconds"),
        ({"barrierSeconds": True}, "barrierSeconds"),
        ({"barrierSeconds": float("nan")}, "barrierSeconds"),
        ({"barrierSeconds": 1e9}, "barrierSeconds"),
        ({"hosts": ["worker"]}, "hosts"),
        ({"hosts": {"worker": ""}}, "hosts"),
        ({"hosts": {"worker": "a b"}}, "hosts"),
        ({"hosts": {"worker": "a" * 254}}, "hosts"),
        ({"hosts": {"worker": 1}}, "hosts"),
        ({"jobFile": "a\nb"}, "jobFile"),
    ],
)
def test_what_is_wrong_in_it_is_named(document: Any, named: str) -> None:
    whole = {**PEERS.to_json(), **document} if isinstance(document, dict) and document else document
    with pytest.raises(ValueError, match=f"^{named}: expected "):
        Peers.from_json(whole)


def test_a_task_has_the_name_of_its_role_and_index() -> None:
    assert PEERS.host("ps_server", 12) == "run-p-0-12.run"


def test_every_task_counts_its_ports_from_the_first_one_but_those_that_the_job_names() -> None:
    places = peers_placement(JOB, PEERS, {}, FOLDER).places
    assert places["worker", 0].ports == {"mpi": (15001, 15002), "ssh": (15000,), "http": (15003,)}
    assert places["worker", 1].ports == {"mpi": (15003, 15004), "ssh": (15000,), "http": (15001,)}
    assert places["ps_server", 0].ports == {"ssh": (15000,), "http": (15001,)}


def test_a_host_is_its_address_or_else_its_name() -> None:
    placement = peers_placement(JOB, PEERS, {("worker", 1): "10.0.0.9"}, FOLDER)
    peers = JobEnvironment(JOB, placement).shared.peers
    assert peers["PAI_HOST_IP_worker_0"] == "run-w-0-0.run"
    assert peers["PAI_HOST_IP_worker_1"] == "10.0.0.9"
    assert peers["PAI_HOST_IP_psserver_0"] == "run-p-0-0.run"
    assert peers["PAI_TASK_ROLE_worker_HOST_LIST"] == "run-w-0-0.run:15003,10.0.0.9:15001"


def test_an_address_of_ipv6_can_be_told_from_its_port() -> None:
    addresses = {("worker", 0): "fd00::1", ("worker", 1): "fd00::2"}
    peers = JobEnvironment(JOB, peers_placement(JOB, PEERS, addresses, FOLDER)).shared.peers
    assert peers["PAI_HOST_IP_worker_0"] == "fd00::1"
    assert peers["PAI_TASK_ROLE_worker_HOST_LIST"] == "[fd00::1]:15003,[fd00::2]:15001"


def test_a_task_role_without_hosts_is_named() -> None:
    peers = Peers("run", "alice", gang=True, barrier_seconds=600, hosts={"worker": "w-{index}"})
    with pytest.raises(UnknownTask, match="ps_server"):
        peers_placement(JOB, peers, {}, FOLDER)
