"""Jobs that OpenPAI has let through, in its pods: faults that cannot affect the task are warnings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.init_harness import USES, PodFolder, api_server, framework, framework_variables, pod_job

pytestmark = pytest.mark.process

CALLBACK = {"event": "taskStarts", "commands": ["echo used"]}
UNRESOLVED = "echo <% $parameters.none %>"
SCRIPT = {"name": "script", "type": "script", "plugin": "cmd", "callbacks": [CALLBACK]}


def _init(
    folder: Path, given: Mapping[str, Any] | str, command: str = "echo given", **more: str
) -> tuple[int, PodFolder]:
    """The exit code of a pod's init container, and the pod; a job that is text is as its user wrote it."""
    document = yaml.safe_load(given) if isinstance(given, str) else given
    whole = framework(document)
    if isinstance(given, str):
        whole["metadata"]["annotations"]["config"] = given
    pod = PodFolder(folder, **framework_variables("worker"), USER_CMD=command, **more)
    with api_server(whole) as url:
        return pod.init(KUBE_APISERVER_ADDRESS=url).returncode, pod


def _job(*prerequisites: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    worker = {"commands": ["echo of the job"], "prerequisites": ["script"], **fields.pop("worker", {})}
    given = pod_job(worker=worker, **fields)
    given["prerequisites"] += [SCRIPT, *prerequisites]
    return given


HARMLESS: Mapping[str, Mapping[str, Any]] = {
    "the command": _job(worker={"commands": ["echo <% $parameters.none %> <% $secrets.none %>"]}),
    "settings of the scheduler": _job(
        defaults={"virtualCluster": None},
        worker={"taskRetryCount": -3, "extraContainerOptions": {"own": 1}, "completion": {"own": 1}},
    ),
    "resources": _job(worker={"resourcePerInstance": {"cpu": 0, "memoryMB": 0, "gpu": 0, "own": 1}}),
    "deployments": _job(
        deployments=[{"name": "d", "own": 1, "taskRoles": {"gone": {"preCommands": [UNRESOLVED]}}}],
        defaults={"deployment": "d"},
    ),
    "storages without a name": _job(extras={"storages": [{"mountPath": "/x"}]}),
    "a use for a role that is gone": _job(
        extras={USES: [{"plugin": "cmd", "taskroles": ["gone", "worker"], "parameters": {"callbacks": []}}]}
    ),
    "an unknown key and parameter of a use": _job(
        extras={USES: [{"plugin": "ssh", "own": 1, "parameters": {"jobssh": False, "own": 1}}]}
    ),
    "an unknown event": _job(
        {**SCRIPT, "name": "other", "callbacks": [{**CALLBACK, "event": "taskStops"}, CALLBACK]},
        worker={"prerequisites": ["script", "other"]},
    ),
    "what another role uses": _job(
        {**SCRIPT, "name": "other", "plugin": "none", "failurePolicy": "never", "callbacks": "none"},
        other={"prerequisites": ["other", "missing"], "commands": [UNRESOLVED]},
        extras={
            USES: [
                {"plugin": "nowhere", "taskroles": ["other"]},
                {"plugin": "ssh", "taskroles": ["other"], "parameters": []},
            ]
        },
    ),
    "what nobody uses": _job(
        {"name": "unused", "type": "data", "uri": 7, "require": ["nothing"], "callback": []},
        {"name": "unused", "type": "output", "plugin": "cmd", "path": "<% $parameters.none %>"},
        parameters={"unused": "<% $secrets.none %>"},
    ),
    "the image": _job(worker={"dockerImage": "none"}),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_cannot_affect_the_task_is_a_warning(tmp_path: Path, what: str) -> None:
    code, pod = _init(tmp_path, HARMLESS[what])
    assert code == 0, pod.log
    assert pod.plan["command"]["script"] == "echo given\n"
    scripts = {step.get("script") for step in pod.plan["steps"] if step["phase"] == "taskStarts"}
    assert "echo used\n" in scripts
    assert [line for line in pod.plan["warnings"] if ": warning: " in line]


def test_types_that_only_yaml_knows_are_a_warning(tmp_path: Path) -> None:
    text = yaml.safe_dump(_job()) + "parameters: {a: !!binary aGk=, b: !!set {x, y}}\n"
    code, pod = _init(tmp_path, text.replace("- echo of the job", "- ! test -e x"))
    assert code == 0, pod.log
    assert len([line for line in pod.log.splitlines() if ": warning: " in line]) >= 3
    assert pod.plan["command"]["script"] == "echo given\n"


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("echo <% $parameters.none %> <% $data.uri %>", "echo <% $parameters.none %> <% $data.uri %>\n"),
        ("# <% $secrets.none %>\necho", "# <% $secrets.none %>\necho\n"),
        ("echo <% $secrets.none %>", None),
    ],
)
def test_of_the_references_that_the_platform_has_left_those_to_secrets_count(
    tmp_path: Path, command: str, script: str | None
) -> None:
    code, pod = _init(tmp_path, _job(), command)
    assert code == (1 if script is None else 0), pod.log
    if script is not None:
        assert pod.plan["command"]["script"] == script


AFFECTING: Mapping[str, Mapping[str, Any]] = {
    "a plugin that is not there": _job(extras={USES: [{"plugin": "nowhere"}]}),
    "a parameter of another type": _job(extras={USES: [{"plugin": "ssh", "parameters": {"jobssh": 7}}]}),
    "a prerequisite that is not there": _job(worker={"prerequisites": ["script", "missing"]}),
    "a requirement that is not there": _job(
        {**SCRIPT, "name": "other", "require": ["missing"]}, worker={"prerequisites": ["other"]}
    ),
    "a field of a prerequisite": _job(
        {**SCRIPT, "name": "other", "failurePolicy": "never"}, worker={"prerequisites": ["other"]}
    ),
    "a reference of a callback": _job(
        {**SCRIPT, "name": "other", "callbacks": [{**CALLBACK, "commands": [UNRESOLVED]}]},
        worker={"prerequisites": ["other"]},
    ),
    "a parameter that a callback refers to": _job(
        {**SCRIPT, "name": "other", "callbacks": [{**CALLBACK, "commands": ["echo <% $parameters.a %>"]}]},
        worker={"prerequisites": ["other"]},
        parameters={"a": "<% $secrets.none %>"},
    ),
}


@pytest.mark.parametrize("what", AFFECTING)
def test_what_the_task_depends_on_is_an_error(tmp_path: Path, what: str) -> None:
    code, pod = _init(tmp_path, AFFECTING[what])
    assert code == 1, pod.log
    assert ": error: " in pod.log


@pytest.mark.parametrize("more", [{"USER_CMD": ""}, {"INIT_CONFIG": "without userCommandRender"}])
def test_where_the_command_is_that_of_the_job_its_faults_are_errors(
    tmp_path: Path, more: Mapping[str, str]
) -> None:
    names = ["frameworkBarrier", "frameworkParser", "jobConfig", "runtimePlugins"]
    plugins = yaml.safe_dump({"initPlugins": [{"name": name} for name in names]})
    given = {name: plugins if name == "INIT_CONFIG" else value for name, value in more.items()}
    command = given.pop("USER_CMD", "echo given")
    assert _init(tmp_path, HARMLESS["the command"], command, **given)[0] == 1
