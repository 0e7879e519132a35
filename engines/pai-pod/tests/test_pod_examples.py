"""The example pods have what a platform gives a pod, and what operators read of init plugins is so."""

import re

import jsonschema
import pytest
import yaml

from pai_document.schemas import package_schema
from pai_pod.init_steps import BUILT_IN
from tests.pods import example_pod
from tests.support import ROOT

GUIDE = (ROOT / "docs/runtime-image.md").read_text("utf-8")

FRAMEWORK = {"NAMESPACE", "NAME", "UID", "ATTEMPT_ID", "ATTEMPT_INSTANCE_UID"}
PLATFORM = {
    *(f"PAI_{name}" for name in ("FRAMEWORK_NAME", "JOB_NAME", "USER_NAME", "USERNAME", "VIRTUAL_CLUSTER")),
    *(f"PAI_{name}" for name in ("DEFAULT_FS_URI", "TASK_ROLE_COUNT", "TASK_ROLES_NUM", "TASK_ROLE_LIST")),
    *(f"PAI_JOB_{name}" for name in ("TASK_ROLE_COUNT", "TASK_ROLE_LIST", "TASK_COUNT")),
    *(f"PAI_{name}" for name in ("TASKS_NUM", "TASK_ROLE_TASK_COUNT_worker", "RESOURCE_worker")),
    *(f"PAI_MIN_{each}_TASK_COUNT_worker" for each in ("FAILED", "SUCCEEDED")),
    *(f"PAI_CURRENT_TASK_ROLE_{name}" for name in ("NAME", "CURRENT_TASK_INDEX")),
    "PAI_TASK_INDEX",
    "NVIDIA_VISIBLE_DEVICES",
    *(f"FC_FRAMEWORK_{name}" for name in FRAMEWORK),
    *(f"FC_TASK_{name}" for name in ("INDEX", "UID", "ATTEMPT_ID", "ATTEMPT_INSTANCE_UID")),
    *(f"FC_{name}" for name in ("TASKROLE_NAME", "TASKROLE_UID", "CONFIGMAP_NAME", "CONFIGMAP_UID")),
    *(f"FC_POD_{name}" for name in ("NAME", "UID")),
}
INIT_ONLY = {"USER_CMD", "KUBE_APISERVER_ADDRESS", "REST_SERVER_URI", "GANG_ALLOCATION"}


def test_the_pod_of_openpai_sets_what_the_platform_sets_and_nothing_else() -> None:
    pod = example_pod("openpai")
    assert pod.init.environment.keys() == PLATFORM | INIT_ONLY
    assert pod.task.environment.keys() == PLATFORM
    assert {name: pod.init.environment[name] for name in PLATFORM} == pod.task.environment


def test_the_pod_of_openpai_mounts_what_the_platform_mounts() -> None:
    pod = example_pod("openpai")
    shared = {"", "/logs", "/secrets", "/user-extension-secrets", "/token-secrets"}
    assert pod.init.mounts.keys() == {f"/usr/local/pai{path}" for path in shared} | {"/usr/local/pai-config"}
    assert pod.task.mounts.keys() == {f"/usr/local/pai{path}" for path in shared} | {"/dev/shm"}
    assert pod.init.mounts["/usr/local/pai/logs"] == pod.task.mounts["/usr/local/pai/logs"]


@pytest.mark.parametrize("name", ["openpai", "proposal"])
def test_a_pod_gives_the_init_container_no_command_and_the_task_that_of_the_runtime(name: str) -> None:
    pod = example_pod(name)
    assert pod.init.command == ()
    assert pod.task.command == ("/usr/local/pai/runtime",)
    assert pod.init.mounts["/usr/local/pai"] == pod.task.mounts["/usr/local/pai"]


def test_the_proposals_pod_gives_its_configuration_as_yaml_folds_it() -> None:
    environment = example_pod("proposal").init.environment
    assert environment["INIT_CONFIG"] == ""
    assert environment["RUNTIME_CONFIG"].startswith(
        'commands: ["ls  -al",  "echo hi"] runtimePlugin: - plugin: ssh\n'
    )


def test_the_init_plugins_that_are_listed_are_the_default_ones_in_their_order() -> None:
    table = GUIDE.split("| name | does | fails with |")[1].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == BUILT_IN


def test_the_configuration_of_init_plugins_that_is_shown_is_one() -> None:
    (shown,) = re.findall(r"```yaml\n(initPlugins:\n.*?)```", GUIDE, re.DOTALL)
    config = yaml.safe_load(shown)
    jsonschema.validate(config, package_schema("pai_pod", "init-plugins.schema.json"))
    assert {each["name"] for each in config["initPlugins"] if "command" not in each} <= {*BUILT_IN}
