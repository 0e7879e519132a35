"""``pai-runtime schema``: JSON Schema for editors, which refuses nothing that ``validate`` accepts."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from tests.plugin_factory import Site
from tests.support import JOBS, ROOT, cli, job

pytestmark = pytest.mark.process


def schema(kind: str, **env: str) -> Any:
    """The validator by the schema of a kind of file."""
    ended = cli("schema", kind, env=env)
    assert ended.returncode == 0, ended.stderr
    return validator_by(ended.stdout)


def validator_by(text: str) -> Any:
    document = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.fixture(scope="module")
def jobs() -> Any:
    return schema("job")


@pytest.fixture(scope="module")
def engines() -> Any:
    return schema("engines")


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
    manifests = schema("manifest")
    for path in ROOT.glob("plugins/*/src/*/manifest.json"):
        assert not faults(manifests, json.loads(path.read_bytes())), path
    assert cli("schema", "jobs").returncode == 2


def profiles(**profile: Any) -> dict[str, Any]:
    return {"enginesVersion": 1, "engines": {"lab": profile}}


def test_engine_profiles_that_are_valid_are_so_by_their_schema(engines: Any) -> None:
    example = yaml.safe_load((ROOT / "examples/kubernetes/engines.yaml").read_bytes())
    page = (ROOT / "docs/slurm.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    assert "engine: slurm" in page
    for document in (example, yaml.safe_load(page), profiles(engine="of another", anything=1)):
        assert not faults(engines, document)


@pytest.mark.parametrize("engine", ["kubernetes", "slurm"])
def test_an_unknown_field_of_an_engine_is_found(engines: Any, engine: str) -> None:
    needed = {"kubernetes": {"runtimeImage": "image"}, "slurm": {"runs": "~/runs"}}
    assert not faults(engines, profiles(engine=engine, **needed[engine]))
    of_both = {name: value for fields in needed.values() for name, value in fields.items()}
    assert faults(engines, profiles(engine=engine, **of_both)) == ["$.engines.lab"]
    assert faults(engines, profiles(engine=engine)) == ["$.engines.lab"]


def test_wrong_values_of_engines_are_found_where_they_are(engines: Any) -> None:
    wrong = profiles(engine="kubernetes", runtimeImage="image", skuTypes={"a100": {"gpuResource": "gpu"}})
    assert faults(engines, wrong) == ["$.engines.lab.skuTypes.a100.gpuResource"]
    wrong = profiles(engine="slurm", runs="~/runs", partition="two words")
    assert faults(engines, wrong) == ["$.engines.lab.partition"]


def test_every_installed_engine_with_a_schema_of_its_profiles_is_offered(engines: Any) -> None:
    offered = engines.schema["properties"]["engines"]["additionalProperties"]["properties"]["engine"]["anyOf"]
    manifests = [path.parent / "manifest.json" for path in ROOT.glob("engines/*/src/*/profile.schema.json")]
    shipped = {json.loads(path.read_bytes())["engine"] for path in manifests}
    assert {each["const"] for each in offered if each} == shipped >= {"kubernetes", "slurm"}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"type": "nonsense"}', '{"$ref": "https://example.com/x.json"}']
)
def test_a_schema_of_profiles_that_cannot_be_used_is_reported_and_left_out(tmp_path: Path, text: str) -> None:
    site = Site(tmp_path)
    files = {"{package}/profile.schema.json": text}
    made = site.add("org.farm", hooks=["pai_engine"], engine="farm", files=files)
    good = {"{package}/profile.schema.json": '{"required": ["acres"]}'}
    site.add("org.garden", hooks=["pai_engine"], engine="garden", files=good)
    ended = site.cli("schema", "engines")
    assert (ended.returncode, made.label in ended.stderr) == (0, True)
    validator = validator_by(ended.stdout)
    assert faults(validator, profiles(engine="farm")) == []
    assert faults(validator, profiles(engine="garden")) == ["$.engines.lab"]
    assert site.imported == set()
