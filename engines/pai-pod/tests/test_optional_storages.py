"""A storage that a pod without a platform lacks: whether it ends the task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.init_harness import PodFolder, config

pytestmark = pytest.mark.process

_STORAGES = {
    "teamwise_storage": {"storageConfigNames": ["confignfs"]},
    "pvc_storage": {"name": "data"},
}


@pytest.mark.parametrize("plugin", _STORAGES)
@pytest.mark.parametrize(("written", "policy"), [(None, "ignore"), ("ignore", "ignore"), ("fail", "fail")])
def test_it_ends_the_task_only_if_its_use_says_so(
    tmp_path: Path, plugin: str, written: str | None, policy: str
) -> None:
    use = {"plugin": plugin, "parameters": _STORAGES[plugin]}
    uses: list[Mapping[str, Any]] = [use | ({"failurePolicy": written} if written else {})]
    uses += [{"plugin": "failure_analysis"}]
    pod = PodFolder(tmp_path)
    assert pod.init(RUNTIME_CONFIG=config("true", uses=uses)).returncode == 0
    assert [use["failurePolicy"] for use in pod.plan["uses"]] == [policy, "fail", "ignore"]
    assert {step["failurePolicy"] for step in pod.plan["steps"] if step["use"] == 0} == {policy}
