"""What an engine profile cannot give is said before the cluster is asked, with its line in the job."""

from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import Problem, Problems
from pai_kubernetes.checks import check
from pai_kubernetes.profile import KubernetesProfile, SkuType, Storage, VirtualCluster
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
from tests.support import job, line_of, write_job

pytestmark = pytest.mark.process

PROFILE = KubernetesProfile(
    name="lab",
    runtime_image="registry.example.com/pai-runtime:1",
    storages={"datasets": Storage("datasets", claim="datasets")},
    virtual_clusters={"default": VirtualCluster("default"), "vision": VirtualCluster("vision")},
    sku_types={"A100": SkuType("A100", "nvidia.com/gpu")},
)
IMAGE = {"name": "image", "type": "dockerimage", "uri": "example/image:1"}


def found(
    folder: Path, document: dict[str, Any], profile: KubernetesProfile = PROFILE
) -> dict[str, tuple[str, str, int]]:
    """By the code of each problem: its severity, its field, and the line that it is in."""
    document["prerequisites"][0] = {**IMAGE, **document.pop("image", {})}
    return {
        each.code: (each.severity, each.field, each.position.line if each.position else 0)
        for each in problems_of(folder, document, profile)
    }


def problems_of(folder: Path, document: dict[str, Any], profile: KubernetesProfile) -> tuple[Problem, ...]:
    problems = Problems()
    files = JobFiles(write_job(folder, document))
    planner = plan_job(files, Host(), lambda job: example_placement(job, "alice"), problems)
    plans = planner.plans()
    problems = Problems()
    check(planner.job, plans, profile, problems)
    return problems.in_order


def test_a_job_that_the_cluster_can_give_all_has_no_problems(tmp_path: Path) -> None:
    document = job(extras={"storages": [{"name": "datasets"}]}, defaults={"virtualCluster": "vision"})
    assert found(tmp_path, document) == {}


def storages(*names: str) -> dict[str, Any]:
    return {"storages": [{"name": name} for name in names]}


def nfs(**fields: Any) -> list[dict[str, Any]]:
    export = {"name": "data", "type": "storage", "plugin": "storage", "server": "nfs.example", "path": "/e"}
    return [{**export, **fields}]


@pytest.mark.parametrize(
    ("fields", "code", "severity", "field", "written"),
    [
        ({"extras": storages("datasetz")}, "unknown-storage", "error", "extras.storages[0].name", "datasetz"),
        (
            {"extras": storages("datasets", "models")},
            "unknown-storage",
            "error",
            "extras.storages[1].name",
            "models",
        ),
        (
            {"defaults": {"virtualCluster": "visions"}},
            "unknown-virtual-cluster",
            "error",
            "defaults.virtualCluster",
            "visions",
        ),
        ({"image": {"uri": "A/B"}}, "wrong-image", "error", "prerequisites[0].uri", "A/B"),
        (
            {"image": {"uri": "a/b"}},
            "image-without-tag",
            "warning",
            "prerequisites[0].uri",
            "a/b",
        ),
        (
            {"worker": {"extraContainerOptions": {"shmMB": 101}}},
            "shm-exceeds-memory",
            "warning",
            "taskRoles.worker.extraContainerOptions.shmMB",
            "shmMB",
        ),
        ({"extras": {"environment": ["A"]}}, "no-effect", "warning", "extras.environment", "- A"),
        ({"extras": {"holdOnFailure": "1h"}}, "held", "note", "extras.holdOnFailure", "holdOnFailure"),
    ],
)
def test_what_the_cluster_cannot_give_is_said_with_its_line(
    tmp_path: Path, fields: dict[str, Any], code: str, severity: str, field: str, written: str
) -> None:
    assert found(tmp_path, job(**fields)) == {code: (severity, field, line_of(tmp_path, written))}


def test_a_name_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    document = job(extras=storages("datasetz"), defaults={"virtualCluster": "visoin"})
    suggested = {each.suggestion for each in problems_of(tmp_path, document, PROFILE)}
    assert {"datasets", "vision"} <= suggested


def test_a_storage_that_may_be_missing_is_only_warned_of(tmp_path: Path) -> None:
    optional = {
        "name": "models",
        "type": "storage",
        "plugin": "pvc_storage",
        "failurePolicy": "ignore",
    }
    document = job(prerequisites=[optional], worker={"prerequisites": ["models"]})
    assert found(tmp_path, document)["unknown-storage"][0] == "warning"


def test_the_virtual_cluster_that_is_meant_where_none_is_named_must_exist(tmp_path: Path) -> None:
    profile = KubernetesProfile("lab", "image", virtual_clusters={"vision": VirtualCluster("vision")})
    assert found(tmp_path, job(), profile)["unknown-virtual-cluster"][:2] == (
        "error",
        "defaults.virtualCluster",
    )


@pytest.mark.parametrize(
    ("roles", "queue", "codes"), [(9, "jobs", ["many-roles-in-queue"]), (9, "", []), (8, "jobs", [])]
)
def test_more_task_roles_than_any_kueue_takes_are_warned_of(
    tmp_path: Path, roles: int, queue: str, codes: list[str]
) -> None:
    profile = KubernetesProfile(
        "lab", "image", virtual_clusters={"default": VirtualCluster("default", queue=queue)}
    )
    document = job()
    document["taskRoles"] = {f"role{number}": document["taskRoles"]["worker"] for number in range(roles)}
    problems = found(tmp_path, document, profile)
    assert list(problems) == codes
    assert all(problems[code][:2] == ("warning", "taskRoles") for code in codes)


def test_any_virtual_cluster_is_right_where_the_profile_lists_none(tmp_path: Path) -> None:
    document = job(defaults={"virtualCluster": "anything"})
    assert found(tmp_path, document, KubernetesProfile("lab", "image")) == {}


def machines(sku_type: str) -> dict[str, Any]:
    return {"extras": {"hivedScheduler": {"taskRoles": {"worker": {"skuType": sku_type, "skuNum": 1}}}}}


@pytest.mark.parametrize(
    ("profile", "sku_type", "severity"),
    [
        (PROFILE, "A100", ""),
        (PROFILE, "A10", "error"),
        (KubernetesProfile("lab", "image"), "A100", "warning"),
    ],
)
def test_a_type_of_machines_is_one_that_the_profile_knows(
    tmp_path: Path, profile: KubernetesProfile, sku_type: str, severity: str
) -> None:
    field = "extras.hivedScheduler.taskRoles.worker.skuType"
    told = found(tmp_path, job(**machines(sku_type)), profile)
    problem = (severity, field, line_of(tmp_path, "skuType"))
    assert told == ({"unknown-sku-type": problem} if severity else {})


def test_an_nfs_export_needs_no_storage(tmp_path: Path) -> None:
    document = job(prerequisites=nfs(), worker={"prerequisites": ["data"]})
    assert found(tmp_path, document) == {}


def test_options_of_an_nfs_export_are_said_to_have_no_effect(tmp_path: Path) -> None:
    document = job(prerequisites=nfs(options="vers=4.2"), worker={"prerequisites": ["data"]})
    severity, field, _ = found(tmp_path, document)["no-effect"]
    assert (severity, field) == ("warning", "prerequisites[1].options")


def test_a_problem_is_told_once_for_all_tasks_of_a_role(tmp_path: Path) -> None:
    document = job(extras=storages("models"), worker={"instances": 50})
    told = problems_of(tmp_path, document, PROFILE)
    assert [each.code for each in told if each.severity == "error"] == ["unknown-storage"]
