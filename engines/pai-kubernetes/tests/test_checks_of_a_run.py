"""All that is wrong with a job for a cluster is said at once, and never as a traceback."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problem, Problems
from pai_kubernetes.cluster import KubernetesCluster
from pai_kubernetes.manifests.sizes import LEAST_OF_ROLE, MOST_DATA, MOST_OBJECT
from pai_kubernetes.run.roles import MOST_TASKS
from pai_runtime.engines.interface import RunRequest
from pai_runtime.engines.profiles import Profile
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
from tests.support import ROOT, job, write_job

pytestmark = pytest.mark.process

PROFILE = """
engine: kubernetes
runtimeImage: registry.example.com/pai-runtime:1
storages: {datasets: {claim: datasets}}
virtualClusters: {default: {}}
"""


def problems_of(folder: Path, document: Mapping[str, Any]) -> tuple[Problem, ...]:
    problems = Problems()
    cluster = KubernetesCluster(Profile("lab", "kubernetes", parse_document(PROFILE, "engines.yaml")))
    run = cluster.new_run(RunRequest("alice"))
    plans = plan_job(JobFiles(write_job(folder, document)), Host(), run.place, problems).plans()
    run.check(plans, problems, ask=False)
    return problems.in_order


def test_what_the_profile_and_the_controllers_cannot_give_is_said_together(tmp_path: Path) -> None:
    document = job(
        defaults={"virtualCluster": "vision"},
        extras={"storages": [{"name": "models"}]},
        worker={"instances": 3, "completion": {"minFailedInstances": 2}},
    )
    errors = {each.code for each in problems_of(tmp_path, document) if each.severity == "error"}
    assert errors == {"unknown-virtual-cluster", "unknown-storage", "undecided-on-kubernetes"}


def test_what_cannot_be_rendered_is_a_problem_too(tmp_path: Path) -> None:
    document = job(parameters={"large": "x" * (MOST_DATA + 1)})
    errors = [each.code for each in problems_of(tmp_path, document) if each.severity == "error"]
    assert errors == ["cannot-render"]


@pytest.mark.parametrize("password", ["plain", "<% $secrets.password %>"])
def test_the_login_of_an_image_needs_no_value_to_be_checked(tmp_path: Path, password: str) -> None:
    document = job(secrets={"password": "a-secret-value"})
    auth = {"username": "me", "password": password, "registryuri": "registry.example.com"}
    document["prerequisites"][0] |= {"uri": "registry.example.com/a:1", "auth": auth}
    told = [each for each in problems_of(tmp_path, document) if each.severity == "error"]
    assert told == []


@pytest.mark.parametrize(
    ("roles", "instances", "code"),
    [
        (MOST_OBJECT // LEAST_OF_ROLE + 1, 1, "too-many-roles"),
        (2, MOST_TASKS // 2 + 1, "too-many-tasks"),
    ],
)
def test_more_than_a_run_can_have_is_refused_before_it_is_planned(
    tmp_path: Path, roles: int, instances: int, code: str
) -> None:
    role = {**job()["taskRoles"]["worker"], "instances": instances}
    document = job(taskRoles={f"role{number}": role for number in range(roles)})
    with pytest.raises(InvalidInput) as raised:
        problems_of(tmp_path, document)
    [problem] = raised.value.problems
    assert (problem.code, problem.field) == (code, "taskRoles")
    assert problem.position
    assert problem.position.file == str(tmp_path / "job.yaml")


def test_the_examples_that_the_documentation_runs_on_a_cluster_can_be_run_there(tmp_path: Path) -> None:
    text = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    named = set(re.findall(r"examples/[\w-]+\.yaml", text))
    assert "examples/demo.yaml" in named
    for name in named:
        document = yaml.safe_load((ROOT / name).read_text("utf-8"))
        assert [each.code for each in problems_of(tmp_path, document) if each.severity == "error"] == [], name
