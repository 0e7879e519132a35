"""Jobs as the platform's tools write them: the plans are what the platform would do."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.problems import Problems
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.model import PLUGIN_PREFIX, Job
from pai_runtime.job.ports import port_counts
from pai_runtime.plan.environment import Placement, TaskPlace
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_task.placeholders import show
from pai_task.plan import PEERS, PLATFORM, Mount, Plan, UseRecord
from tests.support import JOBS

FOLDER = JOBS / "platform"
NAMES = sorted(path.name.removesuffix(".expected.yaml") for path in FOLDER.glob("*.expected.yaml"))

_OWN = {"pvc_storage", "failure_analysis", "hang"}
"""What the platform has no use of a plugin for: storages are mounted, and failures analysed, beside them."""


def on_the_cluster(job: Job) -> Placement:
    """Where the tasks run; see the README of the jobs."""
    places = {}
    for number, (role, index) in enumerate((r, i) for r in job.roles.values() for i in range(r.instances)):
        ports = iter(range(20000 + 100 * number, 20100 + 100 * number))
        own = {label: tuple(next(ports) for _ in range(count)) for label, count in port_counts(role).items()}
        places[role.name, index] = TaskPlace(f"10.0.0.{number + 1}", own, "/usr/local/pai")
    return Placement(f"alice~{job.name}", "alice", places)


def planned(name: str, secrets: Any, folder: Path) -> dict[str, Plan]:
    """The plan of the first task of each role."""
    files = JobFiles(FOLDER / f"{name}.yaml", folder / "secrets.yaml" if secrets else None)
    (folder / "secrets.yaml").write_text(yaml.safe_dump(secrets))
    problems = Problems()
    plans = plan_job(files, Host(NO_POLICY), on_the_cluster, problems).plans()
    problems.check()
    return {role: plan for (role, index), plan in plans.items() if index == 0}


def shown(data: Any) -> Any:
    """Data of a plan with references in the place of secrets."""
    if isinstance(data, dict):
        return {key: shown(value) for key, value in data.items()}
    if isinstance(data, list):
        return [shown(value) for value in data]
    return show(data) if isinstance(data, str) else data


def use_as_written(use: UseRecord) -> dict[str, Any]:
    policy = {"failurePolicy": use.failure_policy} if use.failure_policy != "fail" else {}
    return {
        "plugin": use.plugin.removeprefix(PLUGIN_PREFIX),
        "parameters": shown(dict(use.parameters)),
        **policy,
    }


def mount_as_written(mount: Mount) -> dict[str, Any]:
    more = {"subPath": mount.sub_path} if mount.sub_path else {}
    return {
        "path": mount.path,
        "source": mount.source,
        **more,
        **({"readOnly": True} if mount.read_only else {}),
    }


def parts(plan: Plan) -> dict[str, Any]:
    """What a plan says of all that can be expected."""
    uses = [use_as_written(use) for use in plan.uses]
    commands = {number for number, use in enumerate(uses) if use["plugin"] == "cmd"}
    steps: dict[str, list[str]] = {}
    for step in plan.steps:
        if step.use in commands and step.script is not None:
            steps.setdefault(step.phase, []).append(show(step.script))
    return {
        "command": show(plan.command.script),
        "uses": [use for use in uses if use["plugin"] not in _OWN],
        "steps": steps,
        "mounts": [mount_as_written(planned.mount) for planned in plan.mounts],
        "services": [each.service.name for each in plan.services if uses[each.use]["plugin"] not in _OWN],
    }


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_what_the_platform_would_do(name: str, tmp_path: Path) -> None:
    expected = yaml.safe_load((FOLDER / f"{name}.expected.yaml").read_text())
    plans = planned(name, expected.get("secrets"), tmp_path)
    assert list(plans) == list(expected["roles"])
    for role, what in expected["roles"].items():
        found, variables = parts(plans[role]), what.pop("environment", {})
        assert {part: found[part] for part in what} == what
        given = {variable.name: variable.value for variable in plans[role].variables()}
        assert {variable: given.get(variable) for variable in variables} == variables
        if expected.get("environmentIsWhole"):
            own = {each.name for each in plans[role].variables() if each.source in (PLATFORM, PEERS)}
            assert own - {"PAI_JOB_NAME"} == set(variables)


def test_each_job_has_what_is_expected_of_it() -> None:
    jobs = {path.stem for path in FOLDER.glob("*.yaml") if not path.stem.endswith(".expected")}
    assert jobs == set(NAMES)
    assert len(jobs) >= 12
