"""All that is wrong with a job for a cluster is said at once, and never as a traceback."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.cluster import KubernetesCluster
from pai_kubernetes.manifests.sizes import MOST_DATA
from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import Problem, Problems
from pai_runtime.engines.cluster import ClusterRequest
from pai_runtime.engines.profiles import Profile
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
from tests.support import job, write_job

PROFILE = """
engine: kubernetes
runtimeImage: registry.example.com/pai-runtime:1
storages: {datasets: {claim: datasets}}
virtualClusters: {default: {}}
"""


def problems_of(folder: Path, document: Mapping[str, Any]) -> tuple[Problem, ...]:
    problems = Problems()
    cluster = KubernetesCluster(Profile("lab", "kubernetes", parse_document(PROFILE, "engines.yaml")))
    run = cluster.new_run(ClusterRequest("alice"))
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
