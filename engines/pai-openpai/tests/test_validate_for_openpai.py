"""``validate --for openpai``: what its REST server refuses, as it answered when it was asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import parse_document, read_document
from pai_document.problems import Problem, Problems
from pai_openpai.job_check import MOST_BYTES, check_for_openpai
from tests.job_harness import yaml_text
from tests.support import JOBS, cli_each, job, write_job

EXAMPLES = JOBS.parents[1] / "examples"

NO_INSTANCES = "missing field 'instances'"

OURS: Mapping[str, list[str]] = {
    "references": ["prerequisites[1].type"],
    "shared": ["taskRoles.worker.prerequisites[0]", "taskRoles.worker.prerequisites[1]"],
}
"""The fields of the examples that it refused, once their instances were written."""

PLATFORMS: Mapping[str, list[str]] = {
    "masked_secrets": ["secrets"],
    "older_storage": ["prerequisites[1].type", "prerequisites[3].type"],
    "portal_single": ["deployments"],
    "marketplace_role": ["taskRoles.taskrole.prerequisites[0]"],
    "storage_and_copy": ["prerequisites[2].type"],
}
"""The same of the jobs of the specifications and the platform; of those with names, quotas and storages it
says what only a cluster can know."""


def check(text: str) -> list[Problem]:
    problems = Problems()
    check_for_openpai(parse_document(text, "job.yaml"), problems)
    return list(problems.in_order)


def fields(problems: list[Problem]) -> list[str]:
    """Those that are refused, each once, but for instances that are not written."""
    errors = (each for each in problems if each.severity == "error")
    return list(dict.fromkeys(each.field for each in errors if NO_INSTANCES not in each.message))


def accepted(**more: Any) -> dict[str, Any]:
    """A job that it takes."""
    worker = {"instances": 1, **more.pop("worker", {})}
    return job(worker=worker, **more)


def image(**more: Any) -> dict[str, Any]:
    return {"name": "own", "type": "dockerimage", "uri": "x", "description": "y", **more}


def shared(**more: Any) -> dict[str, Any]:
    return {"name": "shared", "type": "data", "uri": [], "require": ["marketplace://data/mnist"], **more}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_of_the_examples_it_refuses_what_the_server_did(path: Path) -> None:
    assert fields(check(path.read_text())) == OURS.get(path.stem, [])


@pytest.mark.parametrize(
    "path", sorted([*JOBS.glob("*.yaml"), *JOBS.glob("platform/*.yaml")]), ids=lambda path: path.stem
)
def test_of_the_jobs_of_the_platform_it_refuses_what_the_server_did(path: Path) -> None:
    if path.name.endswith(".expected.yaml"):
        return
    assert fields(check(path.read_text())) == PLATFORMS.get(path.stem, [])


@pytest.mark.parametrize(
    "document",
    [
        accepted(),
        accepted(
            defaults={"virtualCluster": None}, deployments=[{"name": "d", "own": 1, "taskRoles": {"w": {}}}]
        ),
        accepted(worker={"taskRetryCount": -2, "resourcePerInstance": {"cpu": 0, "memoryMB": 0, "gpu": 0}}),
        accepted(prerequisites=[shared()], worker={"data": "shared", "prerequisites": ["shared"]}),
        accepted(extras={"storages": [{"mountPath": "/x"}]}),
        accepted(secrets={"a": "b"}),
    ],
)
def test_what_the_server_takes_is_accepted(document: dict[str, Any]) -> None:
    assert check(yaml.safe_dump(document)) == []


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (job(), "taskRoles.worker"),
        (accepted(worker={"instances": None}), "taskRoles.worker.instances"),
        (accepted(worker={"completion": None}), "taskRoles.worker.completion"),
        (accepted(worker={"prerequisites": ["marketplace://name/x"]}), "taskRoles.worker.prerequisites[0]"),
        (accepted(worker={"data": "marketplace://data/x"}), "taskRoles.worker.data"),
        (accepted(prerequisites=[shared(require=[{"name": "x"}])]), "prerequisites[1].require[0]"),
        (accepted(prerequisites=[shared(require=["./x.yaml"])]), "prerequisites[1].require[0]"),
        (accepted(prerequisites=[shared(type="storage")]), "prerequisites[1].type"),
        (accepted(prerequisites=[{"name": "x"}]), "prerequisites[1]"),
        (accepted(prerequisites=[shared(uri="x")]), "prerequisites[1].uri"),
        (accepted(prerequisites=[shared(type="script", uri=["x"])]), "prerequisites[1].uri"),
        (
            accepted(
                worker={"prerequisites": ["hook"]},
                extras={"reference_prerequisites": [{"name": "hook", "require": ["marketplace://name/x"]}]},
            ),
            "taskRoles.worker.prerequisites[0]",
        ),
        (accepted(prerequisites=[image(shm=1)]), "prerequisites[1].shm"),
        (accepted(deployments=[]), "deployments"),
        (
            accepted(deployments=[{"name": "d", "taskRoles": {"worker": {"preCommands": []}}}]),
            "deployments[0].taskRoles.worker.preCommands",
        ),
        (accepted(extras=None), "extras"),
        (accepted(secrets="******"), "secrets"),
        (accepted(description="x" * MOST_BYTES), ""),
    ],
)
def test_what_the_server_refuses_is_an_error_at_its_field(document: dict[str, Any], field: str) -> None:
    (problem,) = check(yaml.safe_dump(document, width=200_000))
    assert (problem.severity, problem.code, problem.field) == ("error", "refused-by-openpai", field)


def test_the_form_that_is_given_for_a_reference_is_one_that_the_server_takes() -> None:
    (problem,) = check(yaml.safe_dump(accepted(worker={"prerequisites": ["marketplace://data/mnist@1.2"]})))
    form = yaml.safe_load(problem.message[problem.message.index("{") : problem.message.index("}") + 1])
    assert form["require"] == ["marketplace://data/mnist@1.2"]
    taken = accepted(prerequisites=[form], worker={"prerequisites": [form["name"]]})
    assert check(yaml.safe_dump(taken)) == []


def test_secrets_that_the_server_would_show_are_an_error() -> None:
    shown = yaml_text({**accepted(), "secrets": {"a": "b"}})  # with quotes
    (problem,) = check(shown)
    assert (problem.code, problem.field) == ("secrets-shown", "secrets")


def with_password(password: str) -> str:
    image = {"name": "private", "type": "dockerimage", "uri": "x", "auth": {"password": password}}
    return yaml.safe_dump(accepted(prerequisites=[image], secrets={"a": "b"}))


def test_a_password_that_the_server_would_show_is_an_error_that_does_not_show_it() -> None:
    (problem,) = check(with_password("hunter2hunter2"))
    assert (problem.code, problem.severity) == ("secrets-shown", "error")
    assert problem.field == "prerequisites[1].auth.password"
    assert "hunter2" not in str(problem)


def test_a_password_that_is_a_reference_to_a_secret_is_accepted() -> None:
    assert check(with_password("<% $secrets.a %>")) == []


@pytest.mark.process
def test_the_command_says_both_what_is_wrong_and_what_openpai_refuses(tmp_path: Path) -> None:
    document = job(worker={"commands": []})
    path = write_job(tmp_path, document)
    plain, for_openpai, ok, both = cli_each(
        ("validate", path),
        ("validate", path, "--for", "openpai"),
        ("validate", EXAMPLES / "retries.yaml", "--for", "openpai"),
        ("validate", path, "--for", "openpai", "--on", "lab"),
    )
    assert "OpenPAI" not in plain.stderr
    assert [line for line in for_openpai.stderr.splitlines() if NO_INSTANCES in line]
    assert [line for line in for_openpai.stderr.splitlines() if "commands" in line]
    assert [each.returncode for each in (plain, for_openpai, ok, both)] == [1, 1, 0, 2]


def test_a_job_of_version_1_has_to_be_converted() -> None:
    sample = min((JOBS / "legacy").glob("*.json"))
    problems = Problems()
    check_for_openpai(read_document(sample), problems)
    (problem,) = problems.in_order
    assert "convert" in problem.message


@pytest.mark.process
def test_a_platform_that_no_plugin_knows_or_the_policy_refuses_is_an_error(tmp_path: Path) -> None:
    path, policy = write_job(tmp_path, job()), tmp_path / "policy.yaml"
    policy.write_text("policyVersion: 1\nplugins: []\n")
    other, refused = cli_each(
        ("validate", path, "--for", "openpay", "--json"),
        ("validate", path, "--for", "openpai", "--policy", policy),
    )
    assert [each.returncode for each in (other, refused)] == [2, 2]
    assert "openpai" in other.stderr
    assert "com.microsoft.pai.engine.openpai" in refused.stderr
