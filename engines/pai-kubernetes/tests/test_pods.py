"""The pods of a run."""

from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.manifests import run_objects
from pai_kubernetes.profile import MountedStorage, SkuType, Storage, VirtualCluster
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import RunRequest
from pai_runtime.engines.packed_code import Carrier
from pai_runtime.plan.mounts import conflict
from pai_runtime.runs.errors import CannotRun
from pai_task.plan import Mount
from pai_task.record import replace
from tests.kubernetes.rendering import PROFILE, RUN, container, pod, render_job
from tests.support import job

pytestmark = pytest.mark.process

TOLERATION = {"key": "pool", "operator": "Exists"}


def volumes(folder: Path, document: dict[str, Any], **more: Any) -> dict[str, Any]:
    rendered = render_job(folder, document, **more)
    return {each["name"]: each for each in pod(rendered)["spec"]["volumes"]}


def mounts(folder: Path, document: dict[str, Any], name: str = "app", **more: Any) -> dict[str, Any]:
    rendered = render_job(folder, document, **more)
    return {each["mountPath"]: each for each in container(rendered, name)["volumeMounts"]}


def storages(*each: Any, **fields: Any) -> dict[str, Any]:
    return job(extras={"storages": list(each)}, **fields)


def resources(folder: Path, profile: Any = PROFILE, sku: Any = None, **fields: Any) -> dict[str, Any]:
    extras = {"hivedScheduler": {"taskRoles": {"worker": sku}}} if sku else {}
    given = {"cpu": 4, "memoryMB": 1024, "gpu": 0, **fields}
    document = job(worker={"resourcePerInstance": given}, extras=extras)
    found: dict[str, Any] = container(render_job(folder, document, profile))["resources"]
    return found


def test_nothing_in_a_pod_is_privileged_or_can_use_the_api(tmp_path: Path) -> None:
    spec = pod(render_job(tmp_path, job()))["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(spec)
    for each in (*spec["initContainers"], *spec["containers"]):
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert "privileged" not in each["securityContext"]


@pytest.mark.parametrize(
    ("name", "user", "added"),
    [
        ("init", 0, None),
        ("runtime-log", 65534, None),
        ("app", None, ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]),
    ],
)
def test_containers_have_few_capabilities(tmp_path: Path, name: str, user: Any, added: Any) -> None:
    context = container(render_job(tmp_path, job()), name)["securityContext"]
    assert context.get("runAsUser") == user
    assert context["capabilities"].get("add") == added


def test_only_a_job_with_a_plugin_that_says_so_has_more(tmp_path: Path) -> None:
    ssh = {"plugin": "ssh", "parameters": {"jobssh": True}}
    document = job(extras={"com.microsoft.pai.runtimeplugin": [ssh]})
    context = container(render_job(tmp_path, document))["securityContext"]
    assert "SYS_CHROOT" in context["capabilities"]["add"]


def test_a_pod_has_the_time_that_its_supervisor_needs(tmp_path: Path) -> None:
    assert pod(render_job(tmp_path, job()))["spec"]["terminationGracePeriodSeconds"] == 60
    saving = job(extras={"onPreemption": {"time": "2.5m"}})
    assert pod(render_job(tmp_path, saving))["spec"]["terminationGracePeriodSeconds"] == 60 + 150


def test_no_secret_is_in_the_environment_and_the_init_container_alone_has_their_files(tmp_path: Path) -> None:
    document = job(secrets={"token": "hunter2"}, worker={"commands": ["echo <% $secrets.token %>"]})
    rendered = render_job(tmp_path, document)
    spec = pod(rendered)["spec"]
    (volume,) = (each for each in spec["volumes"] if "secret" in each)
    assert volume["secret"] == {"secretName": f"{RUN}-secrets", "defaultMode": 0o400}
    for each in (*spec["initContainers"], *spec["containers"]):
        has = [mount["name"] for mount in each["volumeMounts"] if mount["name"] == volume["name"]]
        assert bool(has) == (each["name"] == "init")
        assert not [variable for variable in each.get("env", ()) if "secretKeyRef" in str(variable)]
    assert "env" not in container(rendered)


def test_the_init_container_is_told_who_its_task_is(tmp_path: Path) -> None:
    given = {each["name"]: each for each in container(render_job(tmp_path, job()), "init")["env"]}
    assert given["PAI_CURRENT_TASK_ROLE_NAME"]["value"] == "worker"
    assert given["PAI_SECRET_DIR"]["value"] == given["PAI_USER_EXTENSION_SECRET_DIR"]["value"]
    paths = {
        name: each["valueFrom"]["fieldRef"]["fieldPath"]
        for name, each in given.items()
        if "valueFrom" in each
    }
    assert paths == {
        "PAI_TASK_INDEX": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        "PAI_POD_NAME": "metadata.name",
        "PAI_POD_UID": "metadata.uid",
        "PAI_POD_NAMESPACE": "metadata.namespace",
        "POD_IP": "status.podIP",
        "PAI_JOBSET_UID": "metadata.labels['jobset.sigs.k8s.io/jobset-uid']",
        "PAI_JOB_ATTEMPT": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']",
        "PAI_TASK_ATTEMPT": "metadata.annotations['batch.kubernetes.io/job-index-failure-count']",
        "PAI_TASK_EVICTIONS": "metadata.annotations['batch.kubernetes.io/job-index-ignored-failure-count']",
    }


def test_the_task_runs_in_the_users_image_by_the_runtimes_entry(tmp_path: Path) -> None:
    app = container(render_job(tmp_path, job()))
    assert app["image"] == "example/image"
    assert app["command"] == ["/usr/local/pai/runtime"]
    assert app["terminationMessagePath"] == "/tmp/pai-termination-log"
    assert "workingDir" not in app


def test_the_image_may_be_a_reference(tmp_path: Path) -> None:
    named = {"name": "named", "type": "dockerimage", "uri": "python:<% $parameters.version %>"}
    document = job(parameters={"version": "3.12"}, prerequisites=[named], worker={"dockerImage": "named"})
    assert container(render_job(tmp_path, document))["image"] == "python:3.12"


def test_what_prints_the_runtimes_log_goes_on_beside_the_task(tmp_path: Path) -> None:
    spec = pod(render_job(tmp_path, job()))["spec"]
    assert [each["name"] for each in spec["initContainers"]] == ["init", "runtime-log"]
    sidecar = spec["initContainers"][1]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["args"] == ["init", "--print-logs"]
    assert sidecar["volumeMounts"] == [{"name": "pai-vol", "mountPath": "/usr/local/pai", "readOnly": True}]


@pytest.mark.parametrize(
    ("instances", "completion", "gang", "deciding"),
    [
        (2, {}, True, "failure"),
        (1, {}, True, "success failure"),
        (2, {"minSucceededInstances": 1}, True, "success failure"),
        (3, {"minFailedInstances": 2, "minSucceededInstances": 1}, True, "success"),
        (3, {"minFailedInstances": 2}, True, None),
        (2, {}, False, None),
    ],
)
def test_it_is_told_which_ends_of_its_task_end_a_gang(
    tmp_path: Path, instances: int, completion: Any, deciding: str | None, *, gang: bool
) -> None:
    worker = {"instances": instances, "completion": completion}
    rendered = render_job(tmp_path, job(worker=worker, extras={"gangAllocation": gang}))
    found = {each["name"]: each["value"] for each in container(rendered, "runtime-log").get("env", ())}
    assert found.get("PAI_DECIDING_ENDS") == deciding


@pytest.mark.parametrize(
    ("gang", "first", "port"),
    [(True, {}, "14999"), (True, {"ssh": 14997}, "14996"), (True, {"ssh": 1000}, "14999"), (False, {}, None)],
)
def test_the_tasks_of_a_gang_tell_each_other_at_a_port_that_is_none_of_theirs(
    tmp_path: Path, first: Any, port: str | None, *, gang: bool
) -> None:
    extras = {"gangAllocation": gang, "firstPorts": {"worker": first}}
    rendered = render_job(tmp_path, job(worker={"instances": 3}, extras=extras))
    found = {each["name"]: each["value"] for each in container(rendered, "runtime-log").get("env", ())}
    assert found.get("PAI_BARRIER_PORT") == port


def test_only_the_sidecar_has_the_storage_for_output_and_knows_its_place_there(tmp_path: Path) -> None:
    profile = replace(PROFILE, output=MountedStorage(Storage("results", claim="results", sub_path="runs/")))
    rendered = render_job(tmp_path, job(), profile)
    assert {"name": "pai-output", "persistentVolumeClaim": {"claimName": "results"}} in pod(rendered)["spec"][
        "volumes"
    ]
    holders = {
        name: [each for each in container(rendered, name)["volumeMounts"] if each["name"] == "pai-output"]
        for name in ("init", "runtime-log", "app")
    }
    mount = {"name": "pai-output", "mountPath": "/usr/local/pai-output", "subPath": "runs"}
    assert holders == {"init": [], "runtime-log": [mount], "app": []}
    *before, place = container(rendered, "runtime-log")["env"]
    assert place == {
        "name": "PAI_OUTPUT_OF_TASK",
        "value": f"{RUN}/$(PAI_JOBSET_UID)/worker/$(PAI_TASK_INDEX)",
    }
    told = {"PAI_JOBSET_UID", "PAI_TASK_INDEX", "PAI_JOB_ATTEMPT", "PAI_TASK_ATTEMPT", "PAI_TASK_EVICTIONS"}
    assert {each["name"] for each in before if "valueFrom" in each} == told


def test_code_is_where_the_task_starts(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    request = RunRequest("alice", code=Code(tmp_path / "code"))
    assert container(render_job(tmp_path, job(), request=request))["workingDir"] == "/usr/local/pai/code"
    assert "/usr/local/pai-code/0" in mounts(tmp_path, job(), "init", request=request)
    assert "/usr/local/pai-code/0" not in mounts(tmp_path, job(), request=request)
    assert "/usr/local/pai-code/0" not in mounts(tmp_path, job(), "init")


def test_shared_memory_is_as_large_as_the_job_says(tmp_path: Path) -> None:
    document = job(worker={"extraContainerOptions": {"shmMB": 64}})
    assert volumes(tmp_path, document)["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}
    assert mounts(tmp_path, document)["/dev/shm"]["name"] == "shm"
    assert "shm" not in volumes(tmp_path, job())


def test_the_runtime_may_come_as_a_volume(tmp_path: Path) -> None:
    profile = replace(PROFILE, delivery="imageVolume", image_pull_policy="Always")
    volume = volumes(tmp_path, job(), profile=profile)["runtime-bundle"]
    assert volume["image"] == {"reference": PROFILE.runtime_image, "pullPolicy": "Always"}
    for name in ("init", "app"):
        assert mounts(tmp_path, job(), name, profile=profile)["/usr/local/pai/bundle"] == {
            "name": "runtime-bundle",
            "mountPath": "/usr/local/pai/bundle",
            "subPath": "opt/pai-runtime/bundle",
            "readOnly": True,
        }
        assert "/usr/local/pai/bundle" not in mounts(tmp_path, job(), name)


def test_no_storage_is_mounted_where_a_pod_has_something_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    request = RunRequest("alice", code=Code(tmp_path / "code"))
    profile = replace(PROFILE, delivery="imageVolume")
    document = job(worker={"extraContainerOptions": {"shmMB": 64}})
    own = {
        path
        for name in ("init", "app")
        for path in mounts(tmp_path, document, name, profile=profile, request=request)
    }
    refused = {path for path in own if conflict(Mount(path, "data"), ())}
    assert refused == own


def test_a_task_gets_what_it_requests(tmp_path: Path) -> None:
    amounts = {"cpu": "4", "memory": "1024Mi"}
    assert resources(tmp_path) == {"requests": amounts, "limits": amounts}
    with_gpus = {**amounts, "nvidia.com/gpu": "2"}
    assert resources(tmp_path, gpu=2) == {"requests": with_gpus, "limits": with_gpus}
    assert resources(tmp_path, cpu=0, memoryMB=0) == {"requests": {}, "limits": {}}


def test_the_sku_type_says_which_gpus_and_where(tmp_path: Path) -> None:
    sku = SkuType("mi300", "amd.com/gpu", {"gpu": "mi300"})
    profile = replace(PROFILE, sku_types={"mi300": sku})
    asked = {"skuType": "mi300", "skuNum": 2}
    assert resources(tmp_path, profile, asked, gpu=2)["limits"]["amd.com/gpu"] == "2"
    # As on OpenPAI: a role without GPUs has none, on whatever machine it is.
    assert set(resources(tmp_path, profile, asked)["limits"]) == {"cpu", "memory"}
    document = job(extras={"hivedScheduler": {"taskRoles": {"worker": asked}}})
    assert pod(render_job(tmp_path, document, profile))["spec"]["nodeSelector"] == {"gpu": "mi300"}


def test_the_virtual_cluster_says_where_pods_may_run(tmp_path: Path) -> None:
    cluster = VirtualCluster("big", "", "urgent", "", {"pool": "big"}, [TOLERATION])
    profile = replace(PROFILE, virtual_clusters={"default": VirtualCluster("default"), "big": cluster})
    spec = pod(render_job(tmp_path, job(defaults={"virtualCluster": "big"}), profile))["spec"]
    assert spec["nodeSelector"] == {"pool": "big"}
    assert spec["tolerations"] == [TOLERATION]
    assert spec["priorityClassName"] == "urgent"
    assert not {"nodeSelector", "tolerations", "priorityClassName"} & set(
        pod(render_job(tmp_path, job(), profile))["spec"]
    )


@pytest.mark.parametrize(
    ("storage", "volume", "mount"),
    [
        (
            {"name": "datasets"},
            {"persistentVolumeClaim": {"claimName": "datasets"}},
            {"mountPath": "/mnt/datasets", "readOnly": True},
        ),
        (
            {"name": "scratch", "mountPath": "/data"},
            {"nfs": {"server": "nfs", "path": "/exports/scratch"}},
            {"mountPath": "/data", "subPath": "alice/test"},
        ),
        (
            {"name": "scratch", "share": False, "readOnly": True},
            {"nfs": {"server": "nfs", "path": "/exports/scratch"}},
            {"mountPath": "/mnt/scratch", "subPath": "alice/test/alice", "readOnly": True},
        ),
        (
            {"name": "cache", "share": False},
            {"hostPath": {"path": "/var/cache/pai", "type": "Directory"}},
            {"mountPath": "/mnt/cache", "subPath": "alice"},
        ),
    ],
)
def test_a_storage_is_what_the_profile_says(tmp_path: Path, storage: Any, volume: Any, mount: Any) -> None:
    assert volumes(tmp_path, storages(storage))["storage-0"] == {"name": "storage-0", **volume}
    for name in ("app", "init"):
        found = mounts(tmp_path, storages(storage), name)[mount["mountPath"]]
        assert found == {"name": "storage-0", **mount}


def test_a_user_cannot_leave_the_directory_of_a_sub_path(tmp_path: Path) -> None:
    request = RunRequest("../../bob")
    found = mounts(tmp_path, storages({"name": "scratch"}), request=request)["/mnt/scratch"]
    assert found["subPath"] == "_.._bob/test"


def test_a_storage_that_is_mounted_twice_is_one_volume(tmp_path: Path) -> None:
    document = storages({"name": "cache"}, {"name": "cache", "mountPath": "/other"}, {"name": "scratch"})
    names = [name for name in volumes(tmp_path, document) if name.startswith("storage")]
    assert names == ["storage-0", "storage-1"]
    assert mounts(tmp_path, document)["/other"]["name"] == "storage-0"


def test_an_nfs_export_is_mounted_by_kubernetes(tmp_path: Path) -> None:
    parameters = {"server": "nfs.example.com", "path": "/exports/%USER", "mountPath": "/data"}
    use = {"plugin": "storage", "parameters": parameters}
    document = job(extras={"com.microsoft.pai.runtimeplugin": [use]})
    volume = volumes(tmp_path, document)["storage-0"]
    assert volume["nfs"] == {"server": "nfs.example.com", "path": "/exports/alice"}


def test_a_storage_that_the_profile_lacks_is_refused_unless_its_use_allows_that(tmp_path: Path) -> None:
    use = {"plugin": "pvc_storage", "parameters": {"name": "unknown"}}

    def document(policy: str) -> dict[str, Any]:
        return job(extras={"com.microsoft.pai.runtimeplugin": [{**use, "failurePolicy": policy}]})

    with pytest.raises(CannotRun, match="unknown"):
        render_job(tmp_path, document("fail"))
    assert "storage-0" not in volumes(tmp_path, document("ignore"))


def test_only_init_has_the_storage_for_large_code_and_only_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_objects, "CONFIG_MAPS", Carrier("", 0))
    (tmp_path / "code").mkdir()
    storage = Storage("results", claim="results", sub_path="runs/")
    profile = replace(PROFILE, code=MountedStorage(storage, "/mnt/results"))
    request = RunRequest("alice", code=Code(tmp_path / "code"))
    rendered = render_job(tmp_path, job(), profile, request=request)
    assert not [each for each in rendered.objects if "binaryData" in each]
    claim = {"name": "pai-code", "persistentVolumeClaim": {"claimName": "results"}}
    assert claim in pod(rendered)["spec"]["volumes"]
    mounts = {
        name: [each for each in container(rendered, name)["volumeMounts"] if each["name"] == "pai-code"]
        for name in ("init", "runtime-log", "app")
    }
    path = {"mountPath": "/usr/local/pai-code/storage", "subPath": "runs/pai-code", "readOnly": True}
    assert mounts == {"init": [{"name": "pai-code", **path}], "runtime-log": [], "app": []}
