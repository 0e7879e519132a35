"""The platform's environment variables, one by one."""

from dataclasses import replace
from pathlib import Path

import pytest

from pai_runtime.engines.local.placement import named_ports, placement, ports_needed
from pai_runtime.plan.attempt_variables import Attempt, attempt_variables
from pai_runtime.plan.environment import JobEnvironment, Placement
from tests.job_harness import build
from tests.support import job

_ROLE = {"dockerImage": "image", "commands": ["true"]}
_JOB = job(
    taskRoles={
        "worker": {
            **_ROLE,
            "instances": 2,
            "resourcePerInstance": {"cpu": 2, "memoryMB": 16384, "gpu": 4, "ports": {"tcp": 2}},
            "extraContainerOptions": {"shmMB": 64},
            "completion": {"minFailedInstances": None, "minSucceededInstances": 1},
        },
        "ps_server": {
            **_ROLE,
            "resourcePerInstance": {"cpu": 1, "memoryMB": 8192, "gpu": 0},
            "completion": {"minFailedInstances": -1, "minSucceededInstances": -1},
        },
    },
    defaults={"virtualCluster": "vc1"},
)


_PARSED = build(_JOB)
_PLACEMENT = placement(
    _PARSED, "alice~test", "alice", Path("/run"), list(range(20000, 20000 + ports_needed(_PARSED)))
)


def _environment(role: str, index: int, where: Placement = _PLACEMENT) -> dict[str, str]:
    of_job = JobEnvironment(_PARSED, where)
    own = {variable.name: variable.value for variable in of_job.own(_PARSED.roles[role], index)}
    return {**of_job.shared.platform, **of_job.shared.peers, **own}


# worker/0 has tcp 20000,20001, ssh 20002, http 20003; worker/1 the next four; ps_server/0 the last two.
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAI_FRAMEWORK_NAME", "alice~test"),
        ("PAI_JOB_NAME", "test"),
        ("PAI_USER_NAME", "alice"),
        ("PAI_USERNAME", "alice"),
        ("PAI_VIRTUAL_CLUSTER", "vc1"),
        ("PAI_DEFAULT_FS_URI", ""),
        ("PAI_TASK_ROLE_COUNT", "2"),
        ("PAI_TASK_ROLES_NUM", "2"),
        ("PAI_JOB_TASK_ROLE_COUNT", "2"),
        ("PAI_TASK_ROLE_LIST", "worker,ps_server"),
        ("PAI_JOB_TASK_ROLE_LIST", "worker,ps_server"),
        ("PAI_TASKS_NUM", "3"),
        ("PAI_JOB_TASK_COUNT", "3"),
        ("PAI_TASK_ROLE_TASK_COUNT_worker", "2"),
        ("PAI_TASK_ROLE_TASK_COUNT_ps_server", "1"),
        ("PAI_TASK_ROLE_TASK_COUNT_psserver", "1"),
        ("PAI_RESOURCE_worker", "4,2,16384,64"),
        ("PAI_RESOURCE_ps_server", "0,1,8192,0"),
        ("PAI_MIN_FAILED_TASK_COUNT_worker", "1"),
        ("PAI_MIN_FAILED_TASK_COUNT_ps_server", "-1"),
        ("PAI_MIN_SUCCEEDED_TASK_COUNT_worker", "1"),
        ("PAI_MIN_SUCCEEDED_TASK_COUNT_ps_server", "-1"),
        ("PAI_CURRENT_TASK_ROLE_NAME", "worker"),
        ("PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "1"),
        ("PAI_TASK_INDEX", "1"),
        ("PAI_HOST_IP_worker_0", "127.0.0.1"),
        ("PAI_HOST_IP_ps_server_0", "127.0.0.1"),
        ("PAI_HOST_IP_psserver_0", "127.0.0.1"),
        ("PAI_PORT_LIST_worker_0_tcp", "20000,20001"),
        ("PAI_worker_0_tcp_PORT", "20000,20001"),
        ("PAI_worker_1_ssh_PORT", "20006"),
        ("PAI_PORT_LIST_ps_server_0_http", "20009"),
        ("PAI_psserver_0_http_PORT", "20009"),
        ("PAI_TASK_ROLE_worker_HOST_LIST", "127.0.0.1:20003,127.0.0.1:20007"),
        ("PAI_TASK_ROLE_ps_server_HOST_LIST", "127.0.0.1:20009"),
        ("PAI_TASK_ROLE_psserver_HOST_LIST", "127.0.0.1:20009"),
        ("PAI_TASK_ROLE_INSTANCES", "worker:0,worker:1,ps_server:0"),
        ("PAI_CURRENT_CONTAINER_IP", "127.0.0.1"),
        ("PAI_CURRENT_CONTAINER_PORT", "20007"),
        ("PAI_CONTAINER_HOST_IP", "127.0.0.1"),
        ("PAI_CONTAINER_HOST_PORT", "20007"),
        ("PAI_CONTAINER_SSH_PORT", "20006"),
        ("PAI_CONTAINER_HOST_tcp_PORT_LIST", "20004,20005"),
        ("PAI_CONTAINER_HOST_PORT_LIST", "tcp:20004,20005;ssh:20006;http:20007;"),
    ],
)
def test_a_variable_of_a_worker(name: str, value: str) -> None:
    assert _environment("worker", 1)[name] == value


def test_gpus_are_hidden_from_tasks_without_gpu_only() -> None:
    assert _environment("ps_server", 0)["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert "NVIDIA_VISIBLE_DEVICES" not in _environment("worker", 0)


def _with_unknown_address(role: str, index: int) -> Placement:
    unknown = replace(_PLACEMENT.places[role, index], host=None)
    return replace(_PLACEMENT, places={**_PLACEMENT.places, (role, index): unknown})


def test_of_a_peer_whose_address_is_not_known_yet_all_but_the_address_is_told() -> None:
    where = _with_unknown_address("worker", 0)
    known, told = _environment("worker", 1), _environment("worker", 1, where)
    assert known.keys() - told.keys() == {"PAI_HOST_IP_worker_0"}
    assert {name for name in told if told[name] != known[name]} == {"PAI_TASK_ROLE_worker_HOST_LIST"}
    assert told["PAI_TASK_ROLE_worker_HOST_LIST"] == "127.0.0.1:20007"


def test_a_task_whose_address_is_not_known_yet_is_not_told_a_wrong_one() -> None:
    where = _with_unknown_address("ps_server", 0)
    known, told = _environment("ps_server", 0), _environment("ps_server", 0, where)
    assert known.keys() - told.keys() == {
        "PAI_CURRENT_CONTAINER_IP",
        "PAI_CONTAINER_HOST_IP",
        *(f"PAI_HOST_IP_{name}_0" for name in ("ps_server", "psserver")),
    }
    lists = {f"PAI_TASK_ROLE_{name}_HOST_LIST" for name in ("ps_server", "psserver")}
    assert {name for name in told if told[name] != known[name]} == lists
    assert {told[name] for name in lists} == {""}


def test_what_a_cluster_tells_of_the_attempt_is_in_no_plan() -> None:
    assert not [name for name in _environment("worker", 0) if name.startswith("FC_")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FC_FRAMEWORK_NAMESPACE", "default"),
        ("FC_FRAMEWORK_NAME", "alice~test"),
        ("FC_FRAMEWORK_ATTEMPT_ID", "2"),
        ("FC_CONFIGMAP_NAME", "alice~test-attempt"),
        ("FC_TASKROLE_NAME", "psserver"),
        ("FC_TASK_INDEX", "1"),
        ("FC_TASK_ATTEMPT_ID", "3"),
        ("FC_POD_NAME", "alice~test-psserver-1"),
    ],
)
def test_an_attempt_is_told_what_it_is_as_frameworkcontroller_does(name: str, value: str) -> None:
    assert attempt_variables("alice~test", "ps_server", 1, Attempt(2, 3))[name] == value


@pytest.mark.parametrize(
    ("other", "differ"),
    [
        (
            Attempt(0, 1),
            {"FC_TASK_ATTEMPT_ID", "FC_TASK_ATTEMPT_INSTANCE_UID", "FC_POD_UID"},
        ),
        (
            Attempt(1, 0),
            {
                "FC_FRAMEWORK_ATTEMPT_ID",
                "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
                "FC_CONFIGMAP_UID",
                "FC_TASKROLE_UID",
                "FC_TASK_UID",
                "FC_TASK_ATTEMPT_INSTANCE_UID",
                "FC_POD_UID",
            },
        ),
    ],
    ids=["of the task", "of the job"],
)
def test_another_attempt_has_other_identifiers_where_it_is_another_object(
    other: Attempt, differ: set[str]
) -> None:
    first, again, then = (
        attempt_variables("run", "worker", 0, each) for each in (Attempt(), Attempt(), other)
    )
    assert first == again
    assert {name for name in first if first[name] != then[name]} == differ


def test_a_task_that_is_placed_alone_takes_its_own_ports_and_knows_of_others_what_the_job_names() -> None:
    first = build({**_JOB, "extras": {"firstPorts": {"worker": {"tcp": 9000}}}})
    only = ("worker", 1)
    assert ports_needed(first, only) == 2
    assert list(named_ports(first, only)) == [9002, 9003]
    places = placement(first, "run", "alice", Path("/run"), [20000, 20001], only=only).places
    assert {name: dict(place.ports) for name, place in places.items()} == {
        ("worker", 0): {"tcp": (9000, 9001)},
        only: {"tcp": (9002, 9003), "ssh": (20000,), "http": (20001,)},
        ("ps_server", 0): {},
    }
