"""``pai-runtime schema``: JSON Schema for editors, which refuses nothing that ``validate`` accepts."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from tests.support import JOBS, ROOT, cli, job


def schema(kind: str, **env: str) -> Any:
    """The validator by the schema of a kind of file."""
    ended = cli("schema", kind, env=env)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.fixture(scope="module")
def jobs() -> Any:
    return schema("job")


def faults(validator: Any, document: Any) -> list[str]:
    return [error.json_path for error in validator.iter_errors(document)]


def with_use(plugin: str, **parameters: Any) -> dict[str, Any]:
    use = {"plugin": plugin, "parameters": parameters}
    return job(extras={"com.microsoft.pai.runtimeplugin": [use]})


@pytest.mark.parametrize("folder", [ROOT / "examples", JOBS], ids=["examples", "jobs of tests"])
def test_jobs_that_are_valid_are_so_by_their_schema(jobs: Any, folder: Path) -> None:
    found = {}
    for path in folder.rglob("*.yaml"):
        document = next(yaml.safe_load_all(path.read_bytes()))
        if isinstance(document, dict) and {"protocolVersion", "taskRoles"} <= document.keys():
            found[path.name] = faults(jobs, document)
    assert len(found) > 10
    assert not any(found.values()), found


def test_the_examples_of_all_plugins_are_valid_in_a_job(jobs: Any) -> None:
    for plugin in Host(NO_POLICY).usable:
        for example in plugin.manifest.parameters.get("examples", ()):
            assert not faults(jobs, with_use(plugin.id, **example)), (plugin.id, example)


def test_wrong_fields_and_values_of_plugins_are_found_where_they_are(jobs: Any) -> None:
    place = "$.extras['com.microsoft.pai.runtimeplugin'][0].parameters"
    assert faults(jobs, with_use("git", repo="x")) != []
    assert faults(jobs, with_use("ssh", sshbarrierTimeout="soon")) == [f"{place}.sshbarrierTimeout"]
    wrong = job(prerequisites=[{"name": "code", "type": "script", "plugin": "git", "repositry": "x"}])
    assert faults(jobs, wrong) == ["$.prerequisites[1]"]
    event = [{"event": "taskStart", "commands": []}]
    wrong = job(prerequisites=[{"name": "code", "type": "script", "callbacks": event}])
    assert faults(jobs, wrong) == ["$.prerequisites[1].callbacks[0].event"]


def test_a_reference_may_stand_for_a_value_of_any_type(jobs: Any) -> None:
    assert not faults(jobs, with_use("ssh", sshbarrierTimeout="<% $parameters.seconds %>"))


def test_only_the_parameters_of_allowed_plugins_are_known(tmp_path: Path) -> None:
    entries = [
        {"id": f"com.microsoft.pai.runtimeplugin.{name}", "distribution": f"pai-{name}", "versions": "*"}
        for name in ("authoring", "git")
    ]
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"policyVersion": 1, "plugins": entries}))
    narrowed = schema("job", PAI_RUNTIME_POLICY=str(policy))
    assert faults(narrowed, with_use("git", repo="x")) != []
    assert faults(narrowed, with_use("ssh", nonsense=1)) == []


def test_other_files_have_schemas_too() -> None:
    policy = yaml.safe_load((ROOT / ".ci/policy.yaml").read_bytes())
    assert not faults(schema("policy"), policy)
    engines = yaml.safe_load((ROOT / "examples/kubernetes/engines.yaml").read_bytes())
    assert not faults(schema("engines"), engines)
    manifests = schema("manifest")
    for path in ROOT.glob("plugins/*/src/*/manifest.json"):
        assert not faults(manifests, json.loads(path.read_bytes())), path
    assert cli("schema", "jobs").returncode == 2
