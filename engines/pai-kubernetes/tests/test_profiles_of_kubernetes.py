"""Engine profiles of Kubernetes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import parse_document, read_document
from pai_document.problems import InvalidInput
from pai_kubernetes.profile import KubernetesProfile, MountedStorage, SkuType, Storage, VirtualCluster
from pai_kubernetes.reading import read_profile
from pai_runtime.engines.profiles import Profile
from pai_task.record import replace
from tests.job_harness import yaml_text
from tests.support import ROOT

EXAMPLE = ROOT / "examples" / "kubernetes" / "engines.yaml"
WRONG_OUTPUT = ("wrong-output", "output.storage")
LEAST = {"engine": "kubernetes", "runtimeImage": "registry.example.com/runtime:1"}


def read(document: dict[str, Any] | str) -> KubernetesProfile:
    text = document if isinstance(document, str) else yaml_text(document)
    return read_profile(Profile("lab", "kubernetes", parse_document(text, "/etc/pai-runtime/engines.yaml")))


def test_a_profile_needs_an_image_only() -> None:
    profile = read(LEAST)
    assert profile.runtime_image_at is not None
    expected = KubernetesProfile("lab", "registry.example.com/runtime:1")
    assert replace(profile, runtime_image_at=None) == expected
    assert profile.virtual_clusters is None


def test_the_example_says_all_that_a_profile_can_say() -> None:
    root = read_document(EXAMPLE)
    value = root.get("engines", "lab")
    assert value is not None
    profile = read_profile(Profile("lab", "kubernetes", value))
    assert profile.storages == {
        "datasets": Storage("datasets", claim="datasets", read_only=True),
        "scratch": Storage(
            "scratch", nfs_server="nfs.example.com", nfs_path="/exports/pai/scratch", sub_path="%USER/%JOB"
        ),
        "cache": Storage("cache", host_path="/srv/pai/cache"),
        "results": Storage("results", nfs_server="nfs.example.com", nfs_path="/exports/pai/results"),
    }
    assert profile.output == MountedStorage(profile.storages["results"], "/mnt/results")
    toleration = {"key": "pool", "operator": "Equal", "value": "reserved", "effect": "NoSchedule"}
    assert profile.virtual_clusters == {
        "default": VirtualCluster("default", queue="jobs"),
        "urgent": VirtualCluster("urgent", "jobs", "urgent", "", {"pool": "reserved"}, [toleration]),
    }
    assert profile.sku_types["gpu-machine-mi300"] == SkuType("gpu-machine-mi300", "amd.com/gpu")
    assert profile.sku_types["gpu-machine-a100"].gpu_resource == profile.gpu_resource == "nvidia.com/gpu"
    assert profile.image_pull_secrets == ["registry"]
    assert profile.ttl == 7 * 86400


def test_a_kubeconfig_is_relative_to_the_file_that_names_it() -> None:
    assert read({**LEAST, "kubeconfig": "lab.conf"}).kubeconfig == "/etc/pai-runtime/lab.conf"
    assert read({**LEAST, "kubeconfig": "~/lab.conf"}).kubeconfig == str(Path("~/lab.conf").expanduser())


def test_what_may_be_empty_may_be_empty() -> None:
    profile = read({**LEAST, "virtualClusters": {"default": None}, "skuTypes": {"k80": {}}})
    assert profile.virtual_clusters == {"default": VirtualCluster("default")}
    assert profile.sku_types == {"k80": SkuType("k80", "nvidia.com/gpu")}


@pytest.mark.parametrize(
    ("more", "code", "field"),
    [
        ({"runtimeImage": None}, "wrong-type", "runtimeImage"),
        ({"runtimeImage": "https://registry/x"}, "wrong-image", "runtimeImage"),
        ({"image": "x"}, "unknown-field", "image"),
        ({"ttlSecondsAfterFinished": -1}, "wrong-value", "ttlSecondsAfterFinished"),
        ({"delivery": "mount"}, "wrong-value", "delivery"),
        ({"namespace": "Team"}, "wrong-value", "namespace"),
        ({"gpuResource": "gpu"}, "wrong-value", "gpuResource"),
        ({"storages": {"s": {}}}, "wrong-storage", "storages.s"),
        ({"storages": {"s": {"claim": "c", "hostPath": "/x"}}}, "wrong-storage", "storages.s"),
        ({"storages": {"s": {"claim": "c", "subPath": "/x"}}}, "wrong-value", "storages.s.subPath"),
        ({"storages": {"s": {"claim": "c", "subPath": "a/../../b"}}}, "wrong-value", "storages.s.subPath"),
        ({"storages": {"s": {"claim": "c", "subPath": ".."}}}, "wrong-value", "storages.s.subPath"),
        ({"storages": {"s": {"hostPath": "x"}}}, "wrong-value", "storages.s.hostPath"),
        ({"storages": {"s": {"nfs": {"server": "n"}}}}, "missing-field", "storages.s.nfs"),
        (
            {"virtualClusters": {"v": {"workloadPriorityClass": "high"}}},
            "no-queue",
            "virtualClusters.v.workloadPriorityClass",
        ),
        (
            {"virtualClusters": {"v": {"nodeSelector": {"gpu": True}}}},
            "wrong-type",
            "virtualClusters.v.nodeSelector.gpu",
        ),
        (
            {"virtualClusters": {"v": {"tolerations": [{"effect": "Never"}]}}},
            "wrong-value",
            "virtualClusters.v.tolerations[0].effect",
        ),
        ({"skuTypes": {"k80": {"gpus": 1}}}, "unknown-field", "skuTypes.k80.gpus"),
        ({"imagePullSecrets": ["Bad_Name"]}, "wrong-value", "imagePullSecrets[0]"),
        ({"output": {}}, "missing-field", "output"),
        ({"output": {"storage": "s", "mountedAt": "mnt"}}, "wrong-value", "output.mountedAt"),
        ({"output": {"storage": "s"}}, "wrong-output", "output.storage"),
        ({"output": {"storage": "s"}, "storages": {"s": {"claim": "c", "readOnly": True}}}, *WRONG_OUTPUT),
        ({"output": {"storage": "s"}, "storages": {"s": {"claim": "c", "subPath": "%USER"}}}, *WRONG_OUTPUT),
        ({"code": {"storage": "s"}}, "missing-field", "code"),
        ({"code": {"storage": "s", "mountedAt": "/mnt"}}, "wrong-code", "code.storage"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(more: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read({**LEAST, **more})
    assert [(each.code, each.field) for each in raised.value.problems] == [(code, field)]
    (problem,) = raised.value.problems
    assert problem.position
    assert problem.position.line


def test_all_that_is_wrong_is_said_at_once() -> None:
    text = yaml.safe_dump({**LEAST, "storages": {"a": {}, "b": {}}, "virtualClusters": {"c": {}}})
    with pytest.raises(InvalidInput) as raised:
        read(text.replace("{}", "{x: 1}"))
    assert [each.code for each in raised.value.problems] == ["unknown-field"] * 3
