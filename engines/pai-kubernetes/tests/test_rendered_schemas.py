"""What is rendered is what the published schemas of Kubernetes and of JobSet describe, and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pai_document.problems import InvalidInput
from pai_kubernetes.manifests.jobset import first_pod
from pai_kubernetes.profile import KubernetesProfile, SkuType, Storage, VirtualCluster
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import RunRequest
from pai_runtime.job.overrides import Overrides
from pai_task.record import replace
from tests.kubernetes.published_schemas import models_of_jobset, validate
from tests.kubernetes.rendering import PROFILE, planned, render_job, render_plans
from tests.support import JOBS, ROOT, job

pytestmark = pytest.mark.process

FILES = [*(ROOT / "examples").glob("*.yaml"), *JOBS.rglob("*.yaml"), *JOBS.rglob("*.json")]
MORE_IS_NEEDED = {
    "marketplace_require.yaml",
    "marketplace_role.yaml",
    "masked_secrets.yaml",
    "pre3_wrong.yaml",
    "shared.yaml",
}
"""Definitions from elsewhere, secrets, or a name that is right."""
SOUND = [path for path in sorted(FILES) if ".expected." not in path.name and path.name not in MORE_IS_NEEDED]

TOLERATION = {"key": "pool", "operator": "Exists", "effect": "NoSchedule"}
FULL = replace(
    PROFILE,
    delivery="imageVolume",
    virtual_clusters={
        "default": VirtualCluster("default", "queue", "urgent", "important", {"pool": "a"}, [TOLERATION])
    },
    sku_types={"k80": SkuType("k80", "nvidia.com/gpu", {"gpu": "k80"})},
    image_pull_policy="Always",
    image_pull_secrets=("registry",),
)


def check(objects: tuple[Mapping[str, Any], ...]) -> None:
    """Against the schemas, strictly: a field that they do not know is an error."""
    for each in objects:
        if each["kind"] != "JobSet":
            validate(each)
            continue
        model = models_of_jobset().JobsetV1alpha2JobSet.from_dict(dict(each))
        assert model is not None
        assert model.to_dict() == each
        for number, replicated in enumerate(each["spec"]["replicatedJobs"]):
            of_job = {"apiVersion": "batch/v1", "kind": "Job", **replicated["template"]}
            for document in (of_job, first_pod(each, number)):
                validate(document)


@pytest.mark.parametrize("path", SOUND, ids=lambda path: str(path.relative_to(ROOT)))
def test_jobs_are_rendered_as_the_schemas_say(path: Path) -> None:
    planner = planned(path)
    plans = planner.plans()
    storages = {each.mount.source for plan in plans.values() for each in plan.mounts}
    for profile in (PROFILE, FULL):
        has_all = replace(profile, storages={name: Storage(name, claim="any") for name in storages})
        rendered = render_plans(planner.job, plans, has_all)
        check((*rendered.objects, *rendered.secrets))


TEXTS = st.text("aé☃ '\"$<%>{}:#-", max_size=9)
NAMES = st.from_regex("[a-zA-Z_][a-zA-Z0-9_]{0,40}", fullmatch=True)
ROLES = st.fixed_dictionaries(
    {
        "dockerImage": st.just("image"),
        "instances": st.integers(1, 3),
        "commands": st.lists(TEXTS, min_size=1),
        "resourcePerInstance": st.fixed_dictionaries(
            {"cpu": st.integers(1, 200), "memoryMB": st.integers(1, 10**7), "gpu": st.integers(0, 16)}
        ),
        "extraContainerOptions": st.fixed_dictionaries({"shmMB": st.integers(0, 10**6)}),
    }
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.from_regex("[a-zA-Z0-9_-]{1,255}", fullmatch=True),
    roles=st.dictionaries(NAMES, ROLES, min_size=1, max_size=3),
    user=st.text(min_size=1, max_size=100).filter(str.isprintable),
    secrets=st.dictionaries(NAMES, TEXTS),
    profile=st.sampled_from([PROFILE, FULL]),
)
def test_any_job_is_rendered_as_the_schemas_say(
    tmp_path: Path,
    name: str,
    roles: dict[str, Any],
    user: str,
    secrets: dict[str, str],
    profile: KubernetesProfile,
) -> None:
    document = job(name=name, taskRoles=roles, secrets=secrets)
    (tmp_path / "code").mkdir(exist_ok=True)
    request = RunRequest(user, Overrides({"x": "1"}), Code(tmp_path / "code"), "lock: 1\n")
    try:
        rendered = render_job(tmp_path, document, profile, request=request)
    except InvalidInput as error:
        codes = {each.code for each in error.problems}
    else:
        codes = set()
        check((*rendered.objects, *rendered.secrets))
    assert codes <= {"same-role-name", "wrong-role-name"}
