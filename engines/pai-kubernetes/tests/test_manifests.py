"""A run as objects of Kubernetes, beside its pods."""

import io
import json
import os
import tarfile
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import InvalidInput
from pai_kubernetes import labels
from pai_kubernetes.manifests.objects import RenderedRun
from pai_kubernetes.manifests.sizes import LEAST_OF_ROLE, MOST_DATA
from pai_kubernetes.profile import KubernetesProfile, VirtualCluster
from pai_pod.code import MOST_PART, MOST_PARTS
from pai_pod.peers import Peers
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import RunRequest
from pai_runtime.job.overrides import Overrides
from pai_runtime.runs.errors import CannotRun
from pai_task.record import replace
from tests.kubernetes.rendering import (
    PROFILE,
    RUN,
    RUN_SECRET,
    container,
    job_set,
    named,
    render_file,
    render_job,
)
from tests.support import job, write_job

pytestmark = pytest.mark.process

LOGIN = {"username": "alice", "password": "<% $secrets.password %>"}


def image(name: str, uri: str, **auth: str) -> dict[str, Any]:
    return {"name": name, "type": "dockerimage", "uri": uri, **({"auth": auth} if auth else {})}


def role(**fields: Any) -> dict[str, Any]:
    return {**job()["taskRoles"]["worker"], **fields}


def secret_data(rendered: RenderedRun, name: str) -> dict[str, Any]:
    return {key: json.loads(b64decode(text)) for key, text in named(rendered, name)["data"].items()}


def test_the_job_set_comes_first_and_secrets_are_apart(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    request = RunRequest("alice", code=Code(tmp_path / "code"))
    document = job(
        secrets={"password": "hunter2"},
        prerequisites=[
            image("private", "registry.example.com/a/b:1", **LOGIN, registryuri="registry.example.com")
        ],
        worker={"dockerImage": "private"},
    )
    rendered = render_job(tmp_path, document, request=request)
    assert [(each["kind"], each["metadata"]["name"]) for each in (*rendered.objects, *rendered.secrets)] == [
        ("JobSet", RUN),
        ("ConfigMap", f"{RUN}-job"),
        ("ConfigMap", f"{RUN}-code-0"),
        ("Secret", f"{RUN}-secrets"),
        ("Secret", f"{RUN}-pull"),
    ]
    for each in (*rendered.objects, *rendered.secrets):
        assert each["metadata"]["namespace"] == "team-a"
        assert each["metadata"]["labels"][labels.RUN] == RUN
    assert "hunter2" not in json.dumps(rendered.objects)
    assert RUN_SECRET not in json.dumps(rendered.objects)


def test_the_same_job_gives_the_same_bytes_wherever_it_is(tmp_path: Path) -> None:
    written: list[str] = []
    for name, mode in (("a", 0o644), ("b", 0o664)):
        folder = tmp_path / name / "code"
        folder.mkdir(parents=True)
        (folder / "train.py").write_text("pass")
        (folder / "train.py").chmod(mode)
        os.utime(folder / "train.py", (len(written), 1))
        rendered = render_job(folder.parent, job(), request=RunRequest("alice", code=Code(folder)))
        written.append(json.dumps([*rendered.objects, *rendered.secrets]))
    assert written[0] == written[1]


def test_the_digest_stands_for_all_but_what_is_secret(tmp_path: Path) -> None:
    first = render_job(tmp_path, job(secrets={"token": "hunter2"}))
    other_secret = render_job(tmp_path, job(secrets={"token": "hunter3"}))
    other_job = render_job(tmp_path, job(secrets={"token": "hunter2"}, worker={"commands": ["false"]}))
    assert first.digest == other_secret.digest
    assert first.digest != other_job.digest


def test_a_job_file_in_which_a_secret_stands_elsewhere_is_in_the_secret(tmp_path: Path) -> None:
    def rendered(user: str, command: str = "true") -> RenderedRun:
        commands = [f"ls /home/{user}", command]
        return render_job(tmp_path, job(secrets={"user": user}, worker={"commands": commands}))

    first = rendered("alice")
    assert list(named(first, f"{RUN}-job")["data"]) == ["peers.json"]
    assert "/home/alice" not in json.dumps(first.objects)
    text = b64decode(named(first, f"{RUN}-secrets")["data"]["job_config.yaml"]).decode()
    assert "/home/alice" in text
    assert "user: alice" not in text
    assert first.digest == rendered("carol").digest
    assert first.digest != rendered("alice", "false").digest


def test_labels_hold_what_they_can_and_annotations_all(tmp_path: Path) -> None:
    rendered = render_job(tmp_path, job(name="test_"), request=RunRequest("Älice & co"))
    metadata = job_set(rendered)["metadata"]
    assert metadata["annotations"][labels.USER] == "Älice & co"
    assert metadata["annotations"][labels.JOB] == "test_"
    assert metadata["labels"][labels.USER].startswith("lice-co-")
    assert metadata["labels"][labels.JOB].startswith("test-")


def test_the_job_set_says_which_tasks_there_are(tmp_path: Path) -> None:
    document = job(taskRoles={"ps_server": role(), "worker": role(instances=3)})
    made = job_set(render_job(tmp_path, document))
    annotations = made["metadata"]["annotations"]
    assert json.loads(annotations[labels.ROLES]) == {
        "ps_server": {"name": "ps-server", "instances": 1},
        "worker": {"name": "worker", "instances": 3},
    }
    assert annotations[labels.FILE] == "job.yaml"
    assert [each["name"] for each in made["spec"]["replicatedJobs"]] == ["ps-server", "worker"]
    assert [each["replicas"] for each in made["spec"]["replicatedJobs"]] == [1, 1]
    assert made["spec"]["network"] == {
        "enableDNSHostnames": True,
        "publishNotReadyAddresses": True,
        "subdomain": RUN,
    }


def test_pods_find_each_other_by_the_names_that_job_set_gives_them(tmp_path: Path) -> None:
    document = job(taskRoles={"ps_server": role(), "worker": role()}, extras={"gangAllocation": False})
    data = named(render_job(tmp_path, document), f"{RUN}-job")["data"]
    peers = Peers.from_json(json.loads(data["peers.json"]))
    assert peers.host("ps_server", 0) == f"{RUN}-ps-server-0-0.{RUN}"
    assert peers.host("worker", 12) == f"{RUN}-worker-0-12.{RUN}"
    assert (peers.framework, peers.user, peers.gang, peers.barrier_seconds) == (RUN, "alice", False, 600)


def test_the_job_of_a_pod_is_the_file_with_what_the_command_line_changes(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(parameters={"x": 1}))
    data = named(render_file(path), f"{RUN}-job")["data"]
    assert data["job_config.yaml"] == path.read_text()
    assert set(data) == {"job_config.yaml", "peers.json"}
    overrides = Overrides({"x": "2"}, {"worker": 2}, strict_callbacks=True)
    request = RunRequest("alice", overrides, definitions="lockVersion: 1\n")
    data = named(render_file(path, request=request), f"{RUN}-job")["data"]
    assert Overrides.from_json(json.loads(data["overrides.json"])) == overrides
    assert data["definitions.lock"] == "lockVersion: 1\n"


def test_secrets_keep_their_structure_and_their_text(tmp_path: Path) -> None:
    text = "secrets:\n  pin: 0123\n  more: [0x10, 'a b', {c: 1.0, d: null}]\n"
    write_job(tmp_path, job())
    path = tmp_path / "job.yaml"
    path.write_text(path.read_text() + text)
    assert secret_data(render_file(path), f"{RUN}-secrets") == {
        "secrets.yaml": {"pin": "0123", "more": ["0x10", "a b", {"c": "1.0", "d": ""}]},
        "userExtensionSecrets.yaml": {"run": RUN_SECRET},
    }
    without = render_job(tmp_path, job())
    assert set(named(without, f"{RUN}-secrets")["data"]) == {"userExtensionSecrets.yaml"}


@pytest.mark.parametrize(
    ("uri", "registry", "key"),
    [
        ("registry.example.com/a/b:1", "registry.example.com", "registry.example.com/a/b"),
        (
            "registry.example.com:5000/b",
            "https://registry.example.com:5000/v2/",
            "registry.example.com:5000/b",
        ),
        ("alice/private", "", "https://index.docker.io/v1/"),
    ],
)
def test_the_login_of_an_image_is_for_this_image(tmp_path: Path, uri: str, registry: str, key: str) -> None:
    auth = {**LOGIN, **({"registryuri": registry} if registry else {})}
    document = job(
        secrets={"password": "hunter2"},
        prerequisites=[image("private", uri, **auth)],
        worker={"dockerImage": "private"},
    )
    rendered = render_job(tmp_path, document, replace(PROFILE, image_pull_secrets=("registry",)))
    assert named(rendered, f"{RUN}-pull")["type"] == "kubernetes.io/dockerconfigjson"
    auths = secret_data(rendered, f"{RUN}-pull")[".dockerconfigjson"]["auths"]
    assert auths == {key: {"username": "alice", "password": "hunter2", "auth": "YWxpY2U6aHVudGVyMg=="}}
    spec = job_set(rendered)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["imagePullSecrets"]] == ["registry", f"{RUN}-pull"]


def test_a_login_for_another_registry_is_not_used(tmp_path: Path) -> None:
    private = image("private", "registry.example.com/a", **LOGIN)
    document = job(
        secrets={"password": "hunter2"}, prerequisites=[private], worker={"dockerImage": "private"}
    )
    assert len(render_job(tmp_path, document).secrets) == 1


def test_two_logins_at_docker_hub_are_refused(tmp_path: Path) -> None:
    document = job(
        secrets={"password": "hunter2"},
        prerequisites=[
            image("a", "alice/a", **LOGIN),
            image("b", "bob/b", username="bob", password="hunter3"),
        ],
        taskRoles={"a": role(dockerImage="a"), "b": role(dockerImage="b")},
    )
    with pytest.raises(CannotRun, match=r"prerequisites\[2\]"):
        render_job(tmp_path, document)


def test_kueue_is_told_the_queue_of_the_virtual_cluster(tmp_path: Path) -> None:
    cluster = VirtualCluster("default", "queue", "urgent", "important")
    made = job_set(render_job(tmp_path, job(), replace(PROFILE, virtual_clusters={"default": cluster})))
    assert made["metadata"]["labels"][labels.QUEUE] == "queue"
    assert made["metadata"]["labels"][labels.PRIORITY] == "important"
    spec = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert spec["priorityClassName"] == "urgent"


@pytest.mark.parametrize("name", ["A", "-a", "a" * 41])
def test_a_name_that_no_run_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotRun):
        render_job(tmp_path, job(), name=name)


@pytest.mark.parametrize(
    ("prerequisite", "code"),
    [
        ({"uri": "https://registry/x"}, "wrong-image"),
        ({"uri": "registry/<% $secrets.token %>"}, "secret-in-image"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_refused(
    tmp_path: Path, prerequisite: Mapping[str, str], code: str
) -> None:
    wrong = {"name": "wrong", "type": "dockerimage", **prerequisite}
    document = job(secrets={"token": "hunter2"}, prerequisites=[wrong], worker={"dockerImage": "wrong"})
    with pytest.raises(InvalidInput) as raised:
        render_job(tmp_path, document)
    assert [(each.code, each.field) for each in raised.value.problems] == [(code, "prerequisites[1].uri")]


def test_the_code_is_what_a_local_run_has(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "src" / "run.sh").chmod(0o700)
    (folder / "secret").write_text("x")
    (folder / "link").symlink_to("src")
    os.mkfifo(folder / "fifo")
    code = Code(folder, patterns=("secret",))
    rendered = render_job(tmp_path, job(), request=RunRequest("alice", code=code))
    packed = b64decode(named(rendered, f"{RUN}-code-0")["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = {each.name: each for each in archive.getmembers()}
    assert list(members) == ["link", "src", "src/run.sh"]
    assert [oct(each.mode) for each in members.values()][1:] == ["0o755", "0o755"]
    assert members["link"].linkname == "src"
    assert {(each.uid, each.gid, each.uname, each.gname, each.mtime) for each in members.values()} == {
        (0, 0, "", "", 315532800)
    }


def test_code_beyond_a_config_map_is_in_several_that_are_bound_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    model = os.urandom(3 * 1024**2)
    (tmp_path / "code" / "model.bin").write_bytes(model)
    rendered = render_job(tmp_path, job(), request=RunRequest("alice", code=Code(tmp_path / "code")))
    maps = [each for each in rendered.objects if "binaryData" in each]
    assert [each["metadata"]["name"] for each in maps] == [f"{RUN}-code-{number}" for number in range(4)]
    assert all(each["immutable"] for each in maps)
    parts = [b64decode(each["binaryData"]["code.tar.gz"]) for each in maps]
    assert max(map(len, parts)) <= MOST_DATA
    given = {each["name"]: each.get("value") for each in container(rendered, "init")["env"]}
    assert given["PAI_CODE_DIGEST"] == f"sha256:{sha256(b''.join(parts)).hexdigest()}"
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
        content = archive.extractfile("model.bin")
        assert content
        assert content.read() == model


def test_code_that_config_maps_do_not_hold_is_refused_with_what_is_large(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.bin").write_bytes(os.urandom(MOST_PARTS * MOST_PART))
    (tmp_path / "code" / "train.py").write_text("pass")
    with pytest.raises(CannotRun) as raised:
        render_job(tmp_path, job(), request=RunRequest("alice", code=Code(tmp_path / "code")))
    for word in ("model.bin", ".paiignore", "git", "storage"):
        assert word in str(raised.value)


def test_code_that_packs_well_is_bounded_too(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    with (tmp_path / "code" / "zeros").open("wb") as file:
        file.truncate(65 * 1024**2)
    with pytest.raises(CannotRun, match="zeros"):
        render_job(tmp_path, job(), request=RunRequest("alice", code=Code(tmp_path / "code")))


def test_a_job_that_no_config_map_holds_is_refused_with_what_is_large(tmp_path: Path) -> None:
    request = RunRequest("alice", definitions="#" * 1024**2)
    with pytest.raises(CannotRun) as raised:
        render_job(tmp_path, job(), request=request)
    assert str(raised.value).index("definitions.lock") < str(raised.value).index("job_config.yaml")


def test_more_roles_than_an_object_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=f"JobSet {RUN}"):
        render_job(tmp_path, job(taskRoles={f"role{number}": role() for number in range(400)}))


def test_the_smallest_role_takes_no_less_than_is_reckoned_with_beforehand(tmp_path: Path) -> None:
    for profile in (KubernetesProfile("l", "r"), KubernetesProfile("l", "r", delivery="imageVolume")):
        [found] = render_job(tmp_path, job(), profile, name="r").objects[0]["spec"]["replicatedJobs"]
        assert len(json.dumps(found)) > LEAST_OF_ROLE


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("spec.replicatedJobs[1].template.spec.completions", "taskRoles.worker.instances"),
        ("spec.replicatedJobs[1].template.spec.completionMode", "taskRoles.worker"),
        ("spec.replicatedJobs[1].template.spec.backoffLimitPerIndex", "taskRoles.worker.taskRetryCount"),
        ("spec.replicatedJobs[1].name", "taskRoles.worker"),
        ("spec.replicatedJobs[0].name", "taskRoles.ps"),
        ("{pod}.containers[0].image", "prerequisites[0].uri"),
        ("{pod}.containers[0].resources.limits[nvidia.com/gpu]", "taskRoles.worker.resourcePerInstance.gpu"),
        ("{pod}.containers[0].resources.limits.nvidia.com/gpu", "taskRoles.worker.resourcePerInstance.gpu"),
        ("{pod}.containers[0].resources.requests.memory", "taskRoles.worker.resourcePerInstance.memoryMB"),
        ("{pod}.volumes[3].persistentVolumeClaim.claimName", "extras.storages[0].name"),
        ("{pod}.nodeSelector", "extras.hivedScheduler.taskRoles.worker.skuType"),
        ("spec.failurePolicy.maxRestarts", "jobRetryCount"),
        ("spec.nothing", ""),
    ],
)
def test_fields_of_a_job_set_lead_to_those_of_the_job(tmp_path: Path, path: str, field: str) -> None:
    extras = {
        "storages": [{"name": "datasets"}],
        "hivedScheduler": {"taskRoles": {"worker": {"skuType": "k80", "skuNum": 1}}},
    }
    document = job(taskRoles={"ps": role(), "worker": role(instances=2, taskRetryCount=1)}, extras=extras)
    origins = render_job(tmp_path, document).origins
    found = origins.of(path.format(pod="spec.replicatedJobs[1].template.spec.template.spec"))
    assert found
    assert found.field == field
    assert found.position.file == str(tmp_path / "job.yaml")


def test_what_comes_from_no_field_leads_nowhere(tmp_path: Path) -> None:
    assert render_job(tmp_path, job()).origins.of("status.conditions") is None


@pytest.mark.parametrize(("ttl", "expected"), [(None, None), (0, 0), (3600, 3600)])
def test_a_run_that_is_over_is_removed_after_the_time_of_the_profile(
    tmp_path: Path, ttl: int | None, expected: int | None
) -> None:
    spec = job_set(render_job(tmp_path, job(), replace(PROFILE, ttl=ttl)))["spec"]
    assert spec.get("ttlSecondsAfterFinished") == expected
