"""The platform's environment variables, one by one."""

from pathlib import Path

import pytest

from pai_runtime.engines.local.placement import placement, ports_needed
from pai_runtime.plan.environment import JobEnvironment
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


def _environment(role: str, index: int) -> dict[str, str]:
    parsed = build(_JOB)
    ports = list(range(20000, 20000 + ports_needed(parsed)))
    where = placement(parsed, "alice~test", "alice", Path("/run"), ports)
    return {
        variable.name: variable.value
        for variable in JobEnvironment(parsed, where).of(parsed.roles[role], index)
    }


# worker/0 has tcp 20000,20001, ssh 20002, http 20003; worker/1 the next four; ps_server/0 the last two.
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAI_FRAMEWORK_NAME", "alice~test"),
        ("PAI_JOB_NAME", "alice~test"),
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
        ("FC_FRAMEWORK_NAMESPACE", "default"),
        ("FC_FRAMEWORK_NAME", "alice~test"),
        ("FC_FRAMEWORK_ATTEMPT_ID", "0"),
        ("FC_TASKROLE_NAME", "worker"),
        ("FC_TASK_INDEX", "1"),
        ("FC_TASK_ATTEMPT_ID", "0"),
        ("FC_POD_NAME", "alice~test-worker-1"),
    ],
)
def test_a_variable_of_a_worker(name: str, value: str) -> None:
    assert _environment("worker", 1)[name] == value


@pytest.mark.parametrize(
    "name",
    [
        "FC_FRAMEWORK_UID",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
        "FC_TASKROLE_UID",
        "FC_TASK_UID",
        "FC_TASK_ATTEMPT_INSTANCE_UID",
        "FC_CONFIGMAP_NAME",
        "FC_CONFIGMAP_UID",
        "FC_POD_UID",
    ],
)
def test_identifiers_of_frameworkcontroller_are_there(name: str) -> None:
    assert _environment("worker", 0)[name]


def test_gpus_are_hidden_from_tasks_without_gpu_only() -> None:
    assert _environment("ps_server", 0)["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert "NVIDIA_VISIBLE_DEVICES" not in _environment("worker", 0)


def test_frameworkcontroller_calls_roles_by_its_own_name() -> None:
    assert _environment("ps_server", 0)["FC_TASKROLE_NAME"] == "psserver"
    assert _environment("ps_server", 0)["PAI_CURRENT_TASK_ROLE_NAME"] == "ps_server"
