"""Warnings of variables in commands about tasks and ports that the job does not have."""

from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import Problem
from tests.job_harness import validated
from tests.support import job, line_of, write_job

pytestmark = pytest.mark.process


def roles(*commands: str, **fields: Any) -> dict[str, Any]:
    """A job with the roles worker, of two tasks with a port `rpc_1`, and ps_server, of one."""
    worker = job()["taskRoles"]["worker"]
    resources = {**worker["resourcePerInstance"], "ports": {"rpc_1": 1}}
    worker = {**worker, "resourcePerInstance": resources}
    return {
        **job(**fields),
        "taskRoles": {
            "worker": {**worker, "instances": 2, "commands": list(commands)},
            "ps_server": {**worker, "commands": ["true"]},
        },
    }


def warnings(folder: Path, *commands: str, **fields: Any) -> tuple[Problem, ...]:
    found = validated(write_job(folder, roles(*commands, **fields)))
    assert all(each.severity == "warning" for each in found)
    return found


@pytest.mark.parametrize(
    ("variable", "code", "meant"),
    [
        ("PAI_HOST_IP_wroker_0", "no-such-task-role", "$PAI_HOST_IP_worker_0"),
        ("PAI_PORT_LIST_wroker_1_http", "no-such-task-role", "$PAI_PORT_LIST_worker_1_http"),
        ("PAI_wroker_1_http_PORT", "no-such-task-role", "$PAI_worker_1_http_PORT"),
        ("PAI_TASK_ROLE_ps_sever_HOST_LIST", "no-such-task-role", "$PAI_TASK_ROLE_ps_server_HOST_LIST"),
        ("PAI_TASK_ROLE_TASK_COUNT_wroker", "no-such-task-role", "$PAI_TASK_ROLE_TASK_COUNT_worker"),
        ("PAI_RESOURCE_Worker", "no-such-task-role", "$PAI_RESOURCE_worker"),
        ("PAI_HOST_IP_chief_0", "no-such-task-role", None),
        ("PAI_HOST_IP_worker_2", "no-such-task", None),
        ("PAI_PORT_LIST_worker_0_htpp", "no-such-port", "$PAI_PORT_LIST_worker_0_http"),
        ("PAI_worker_0_rpc_2_PORT", "no-such-port", "$PAI_worker_0_rpc_1_PORT"),
    ],
)
def test_a_variable_that_no_task_is_given_is_warned_of_with_what_was_meant(
    tmp_path: Path, variable: str, code: str, meant: str | None
) -> None:
    (problem,) = warnings(tmp_path, "true", f"echo one\necho ${variable}")
    assert (problem.code, problem.found, problem.suggestion) == (code, f"${variable}", meant)
    assert problem.field == "taskRoles.worker.commands[1]"


def test_it_is_told_once_where_it_is_used_first(tmp_path: Path) -> None:
    text = """\
protocolVersion: 2
name: test
type: job
prerequisites: [{name: image, type: dockerimage, uri: debian}]
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands:
      - |
        echo one
        curl "http://${PAI_HOST_IP_wroker_0}:80"
      - echo $PAI_HOST_IP_wroker_0
"""
    (problem,) = validated(write_job(tmp_path, text))
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (line_of(tmp_path, "wroker"), 22)


@pytest.mark.parametrize(
    "text",
    [
        "$PAI_HOST_IP_worker_1 $PAI_HOST_IP_ps_server_0 $PAI_HOST_IP_psserver_0",
        "$PAI_PORT_LIST_worker_0_http $PAI_PORT_LIST_worker_0_rpc_1 $PAI_worker_1_rpc_1_PORT",
        "$PAI_TASK_ROLE_ps_server_HOST_LIST $PAI_TASK_ROLE_TASK_COUNT_worker $PAI_RESOURCE_worker",
        "$PAI_MIN_FAILED_TASK_COUNT_worker $PAI_TASK_ROLE_INSTANCES $PAI_TASK_ROLE_LIST $PAI_TASK_INDEX",
        "$PAI_CONTAINER_HOST_rpc_1_PORT_LIST $PAI_CURRENT_CONTAINER_PORT $PAI_JOB_NAME",
        "${PAI_HOST_IP_chief_0:-none} ${PAI_HOST_IP_chief_0+set} PAI_HOST_IP_chief_0",
        'eval "echo \\$PAI_HOST_IP_worker_$PAI_TASK_INDEX"',
        "$PAI_HOST_IP_<% $parameters.role %>_0",
    ],
)
def test_what_is_set_or_may_be_made_up_is_not_warned_of(tmp_path: Path, text: str) -> None:
    assert warnings(tmp_path, f"echo {text}", parameters={"role": "worker"}) == ()


def test_a_port_of_a_plugin_is_known(tmp_path: Path) -> None:
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "distributed"}]}
    assert warnings(tmp_path, "echo $PAI_PORT_LIST_worker_0_distributed", extras=extras) == ()


def test_commands_of_plugins_are_looked_at_too(tmp_path: Path) -> None:
    use = {"plugin": "cmd", "parameters": {"preCommands": ["ping $PAI_HOST_IP_wroker_0"]}}
    (problem,) = warnings(tmp_path, "true", extras={"com.microsoft.pai.runtimeplugin": [use]})
    assert problem.field.endswith("parameters.preCommands[0]")
