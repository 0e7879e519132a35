"""What the cluster would refuse of a job is reported with its place, before anything is submitted."""

import json
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.runs.errors import ClusterError
from tests.openpai.cluster import User
from tests.openpai.hived import Quota
from tests.openpai.lab import Lab
from tests.openpai.rest_server import Fault
from tests.support import ROOT, job

pytestmark = pytest.mark.process

SKUS = {"A100": {"cpu": 12, "memory": 65536, "gpu": 1}, "K80": {"cpu": 4, "memory": 8192, "gpu": 1}}


def found(openpai: Lab, document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The problems, each by its code, field and severity."""
    problems = openpai.planned(document).checked()
    assert not openpai.asked("POST")
    return [(each.code, each.field, each.severity) for each in problems if each.severity != "note"]


def hived(**more: Any) -> dict[str, Any]:
    return {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "K80"}}, **more}}


def worker(gpu: int, instances: int = 1, **more: Any) -> dict[str, Any]:
    resources = {"cpu": 1, "memoryMB": 100, "gpu": gpu}
    return {"instances": instances, "resourcePerInstance": resources, **more}


def test_a_job_that_the_cluster_takes_has_no_problems(openpai: Lab) -> None:
    assert found(openpai, job(worker=worker(1))) == []


@pytest.mark.parametrize(("own", "given"), [("vc2", {}), ("default", {"virtualCluster": "vc2"})])
def test_a_virtual_cluster_has_to_be_one_of_the_users(openpai: Lab, own: str, given: dict[str, str]) -> None:
    openpai.server.cluster.users["alice"] = User("alice-password", virtual_clusters=(own,))
    problems = found(openpai, job(defaults=given) if given else job())
    assert problems == [("unknown-virtual-cluster", "defaults.virtualCluster", "error")]


@pytest.mark.parametrize("odd", [5, "default", {}, None])
def test_a_user_without_a_list_of_virtual_clusters_may_use_none(openpai: Lab, odd: object) -> None:
    openpai.server.arm(Fault(200, json.dumps({"virtualCluster": odd}).encode()), path="/users/")
    problems = found(openpai, job())
    assert [code for code, _, _ in problems] == ["unknown-virtual-cluster"]


def test_the_virtual_cluster_of_the_profile_is_that_of_jobs_that_name_none(openpai: Lab) -> None:
    openpai.server.cluster.users["alice"] = User("alice-password", virtual_clusters=("vc2",))
    other = Lab(openpai.server, virtualCluster="vc2")
    assert found(other, job()) == []
    reader = other.submit(job())
    assert other.job(reader).submission.virtual_cluster == "vc2"


@pytest.mark.parametrize(
    ("extras", "gpus", "instances", "expected"),
    [
        (hived(), 1, 2, []),
        (hived(), 1, 3, [("too-much", "taskRoles", "error")]),
        (hived(jobPriorityClass="oppo"), 1, 3, []),
        ({**hived(), "gangAllocation": False}, 1, 3, []),
        (
            {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "A100"}}}},
            *(1, 1),
            [("unknown-sku-type", "extras.hivedScheduler.taskRoles.worker.skuType", "error")],
        ),
        (
            {"hivedScheduler": {"jobPriorityClass": "oppo", "taskRoles": {"worker": {"skuType": "A100"}}}},
            *(1, 1),
            [],
        ),
    ],
)
def test_skus_are_those_of_the_virtual_cluster(
    openpai: Lab, extras: dict[str, Any], gpus: int, instances: int, expected: list[tuple[str, str, str]]
) -> None:
    openpai.server.cluster.sku_types = SKUS
    openpai.server.cluster.quotas = {"default": Quota(("K80", "K80"))}
    assert found(openpai, job(extras=extras, worker=worker(gpus, instances))) == expected


@pytest.mark.parametrize(
    ("skus", "gpus", "expected"),
    [
        (("K80", "A100"), 1, []),
        (("A100", "K80", "K80"), 2, [("too-much", "taskRoles", "error")]),
        (("A100", "CPU"), 0, []),
        (("A100", "CPU"), 1, [("unknown-sku-type", "taskRoles.worker", "error")]),
    ],
)
def test_a_sku_of_no_type_is_as_small_as_the_smallest_of_the_virtual_cluster(
    openpai: Lab, skus: tuple[str, ...], gpus: int, expected: list[tuple[str, str, str]]
) -> None:
    sizes = {"A100": (12, 65_536, 1), "CPU": (4, 8192, 0), "K80": (4, 8192, 1)}
    keys = ("cpu", "memory", "gpu")
    cluster = openpai.server.cluster
    cluster.sku_types = {sku: dict(zip(keys, size, strict=True)) for sku, size in sizes.items()}
    cluster.quotas = {"default": Quota(skus)}
    document = job(worker=worker(gpus, 2))
    assert found(openpai, document) == expected
    if not expected:
        openpai.submit(document)


def test_without_hived_a_job_that_is_too_large_is_a_warning(openpai: Lab) -> None:
    expected = [("too-much", "taskRoles", "warning")]
    assert found(openpai, job(worker=worker(4, 3))) == expected
    sku = ("unknown-sku-type", "extras.hivedScheduler.taskRoles.worker.skuType", "warning")
    assert found(openpai, job(extras=hived(), worker=worker(1))) == [sku]


def test_a_storage_has_to_be_one_of_the_users(openpai: Lab) -> None:
    extras = {
        "storages": [{"name": "datasets", "mountPath": "/data"}, {"name": "private", "mountPath": "/p"}]
    }
    assert found(openpai, job(extras=extras)) == [("unknown-storage", "extras.storages[1].name", "error")]


def test_a_storage_is_told_though_another_use_of_it_ignores_that_it_is_missing(openpai: Lab) -> None:
    plugins = [
        {"plugin": "pvc_storage", "parameters": {"name": "private", "mountPath": f"/{policy}"}, **policy_of}
        for policy, policy_of in (("ignore", {"failurePolicy": "ignore"}), ("fail", {}))
    ]
    own = Lab(openpai.server, runtime="pai-runtime")
    field = "extras.com.microsoft.pai.runtimeplugin"
    expected = [("unknown-storage", f"{field}[1].parameters.name", "error")]
    for uses, told in ((plugins[:1], []), (plugins, expected)):
        assert found(own, job(extras={"com.microsoft.pai.runtimeplugin": uses})) == told


def test_a_cluster_that_is_too_old_is_refused(openpai: Lab) -> None:
    for version in ("v1.3.0", "0.14"):
        openpai.server.arm(Fault(200, json.dumps({"version": version}).encode()), path="/info")
        with pytest.raises(ClusterError, match=version):
            openpai.planned(job()).checked()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_accepted_or_refused_by_us_before_any_request(openpai: Lab, path: Path) -> None:
    openpai.server.cluster.begin.clear()
    own = Lab(openpai.server, runtime="pai-runtime")
    planned = own.planned(path)
    if not [each for each in planned.checked() if each.severity == "error"]:
        planned.submit()
    assert len(openpai.asked("POST")) == len(openpai.server.cluster.jobs)
