"""The files in ``deploy/kubernetes``: valid, and right about what they allow and refuse."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import read_document
from pai_kubernetes.labels import JOBSET_NAME
from pai_kubernetes.manifests.jobset import first_pod
from pai_kubernetes.profile import KubernetesProfile, MountedStorage, Storage
from pai_kubernetes.reading import read_profile
from pai_pod.code import MOST_PART, MOST_PARTS
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import RunRequest
from pai_runtime.engines.profiles import Profile
from tests.kubernetes.published_schemas import validate
from tests.kubernetes.rendering import render_job
from tests.support import ROOT, job

celpy: Any = import_module("celpy")  # its own types are in the way of what is Any here

DEPLOY = ROOT / "deploy/kubernetes"
OBJECTS = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}-{document['metadata']['name']}")
    for path in sorted(DEPLOY.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text("utf-8"))
]
POLICY, CREATORS = (
    document
    for document in yaml.safe_load_all((DEPLOY / "admission-policy.yaml").read_text("utf-8"))
    if document["kind"] == "ValidatingAdmissionPolicy"
)


@pytest.mark.parametrize("document", OBJECTS)
def test_every_file_holds_objects_that_kubernetes_takes(document: dict[str, Any]) -> None:
    if document["apiVersion"].startswith("kueue."):
        assert document.keys() <= {"apiVersion", "kind", "metadata", "spec", "value", "description"}
    else:
        validate(document)


def test_the_policies_are_ones_for_the_oldest_version_that_they_name() -> None:
    validate(POLICY, "1.30")
    validate(CREATORS, "1.30")


# The admission policy, by an interpreter of CEL.


def refusal(
    document: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    resource: str = "pods",
    likely: Collection[str] = (),
    edited: Mapping[str, str] | None = None,
) -> str | None:
    """The message by which the policy refuses an object, else empty; None if it does not apply to it.

    `edited`: lists as an operator has made them of those in the file.

    To evaluate them takes long, so those validations come first in which most of the `likely` words are.
    """
    operation = "UPDATE" if old else "CREATE"
    known = {
        "object": celpy.json_to_cel(document),
        "oldObject": celpy.json_to_cel(old),
        "request": celpy.json_to_cel({"operation": operation, "resource": {"resource": resource}}),
        "variables": celpy.json_to_cel({}),
    }
    spec = POLICY["spec"]
    if not all(program(each["expression"]).evaluate(known) for each in spec["matchConditions"]):
        return None
    for variable in spec["variables"]:
        name = celpy.json_to_cel(variable["name"])
        expression = (edited or {}).get(variable["name"], variable["expression"])
        known["variables"][name] = program(expression).evaluate(known)
    validations = sorted(
        spec["validations"], key=lambda each: -sum(word in each["expression"] for word in likely)
    )
    broken = (each["message"] for each in validations if not holds(each["expression"], known))
    return next(broken, "")


@cache
def program(expression: str) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(expression))


def holds(expression: str, known: Mapping[str, Any]) -> bool:
    """An expression that fails refuses too, as the policy says by its ``failurePolicy``."""
    try:
        return bool(program(expression).evaluate(known))
    except celpy.CELEvalError:
        return False


def pod_spec() -> dict[str, Any]:
    """A pod of a job, in short."""
    runtime = "registry.example.com/pai-runtime:0.1.0"
    volume = {"name": "pai-vol", "mountPath": "/usr/local/pai"}
    data = {"name": "data", "mountPath": "/mnt/data"}
    configuration = [
        {"name": "config", "mountPath": "/usr/local/pai-config"},
        {"name": "secrets", "mountPath": "/usr/local/pai-secrets"},
    ]
    own = {"fieldRef": {"fieldPath": "metadata.name"}}
    environment = [
        {"name": "PAI_SECRET_DIR", "value": "/usr/local/pai-secrets"},
        {"name": "PAI_POD_NAME", "valueFrom": own},
    ]
    bounded = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [
            {
                "name": "init",
                "image": runtime,
                "env": environment,
                "volumeMounts": [volume, *configuration, data],
                "securityContext": {"runAsUser": 0, **bounded},
            },
            {
                "name": "runtime-log",
                "image": runtime,
                "args": ["init", "--print-logs"],
                "restartPolicy": "Always",
                "volumeMounts": [{**volume, "readOnly": True}],
                "securityContext": {"runAsUser": 65534, **bounded},
            },
        ],
        "containers": [
            {
                "name": "app",
                "image": "python:3.12",
                "command": ["/usr/local/pai/runtime"],
                "volumeMounts": [volume, data, {"name": "shm", "mountPath": "/dev/shm"}],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "SETUID"]},
                },
            }
        ],
        "volumes": [
            {"name": "pai-vol", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "config", "configMap": {"name": "demo-job"}},
            {"name": "secrets", "secret": {"secretName": "demo-secrets", "defaultMode": 0o400}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    }


LABELS = {"pai-runtime/run": "demo", "jobset.sigs.k8s.io/jobset-name": "demo"}


def pod(spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    labels = LABELS if labels is None else labels
    return {"kind": "Pod", "metadata": {"name": "demo-worker-0-0-abcde", "labels": labels}, "spec": spec}


def jobset(*specs: Mapping[str, Any], name: str = "demo") -> dict[str, Any]:
    jobs = [{"name": "w", "template": {"spec": {"template": {"spec": each}}}} for each in specs]
    return {"kind": "JobSet", "metadata": {"name": name}, "spec": {"replicatedJobs": jobs}}


@pytest.mark.process
@pytest.mark.parametrize(
    "parts", [MOST_PARTS, MOST_PARTS + 1], ids=["code in ConfigMaps", "code on a storage"]
)
def test_what_the_engine_renders_is_allowed(tmp_path: Path, parts: int) -> None:
    results = Storage("results", nfs_server="nfs.example.com", nfs_path="/exports/pai/results")
    storages = [{"name": "datasets"}, {"name": "scratch", "share": False}, {"name": "cache"}]
    document = job(extras={"storages": storages}, worker={"extraContainerOptions": {"shmMB": 64}})
    document["prerequisites"][0]["uri"] = "python:3.12"
    profile = KubernetesProfile(
        "lab",
        "registry.example.com/pai-runtime:1",
        delivery="imageVolume",
        storages={
            "datasets": Storage("datasets", claim="datasets"),
            "scratch": Storage("scratch", nfs_server="nfs.example.com", nfs_path="/exports/pai/scratch"),
            "cache": Storage("cache", host_path="/srv/pai/cache"),
        },
        output=MountedStorage(results),
        code=MountedStorage(results) if parts > MOST_PARTS else None,
    )
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.bin").write_bytes(os.urandom((parts - 1) * MOST_PART))
    request = RunRequest("alice", code=Code(tmp_path / "code"))
    rendered = render_job(tmp_path, document, profile, request=request).objects[0]
    assert refusal(rendered, resource="jobsets") == ""
    [job_template] = rendered["spec"]["replicatedJobs"]
    template = job_template["template"]["spec"]["template"]
    labels = {**template["metadata"]["labels"], JOBSET_NAME: rendered["metadata"]["name"]}
    assert refusal(pod(made_by_job(template["spec"]), labels)) == ""
    assert refusal(first_pod(rendered, 0)) == ""  # which is tried beforehand


def made_by_job(spec: dict[str, Any]) -> dict[str, Any]:
    """What the controller of Jobs, and the admission of service accounts, make of a template."""
    index = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}}
    for container in (*spec["initContainers"], *spec["containers"]):
        container["env"] = [*container.get("env", ()), index]
    return {
        **spec,
        "hostname": "demo-worker-0-0",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "schedulerName": "default-scheduler",
        "tolerations": [
            *spec.get("tolerations", ()),
            *(
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ),
        ],
    }


def test_the_pod_that_is_changed_in_these_tests_is_allowed() -> None:
    assert refusal(pod(pod_spec())) == ""
    assert refusal(jobset(pod_spec(), pod_spec()), resource="jobsets") == ""


@pytest.mark.parametrize("labels", [{}, {"app": "web"}])
def test_other_pods_of_the_namespace_are_not_looked_at(labels: dict[str, str]) -> None:
    assert refusal(pod({"containers": [{"name": "web", "image": "nginx"}]}, labels)) is None


@pytest.mark.parametrize("label", LABELS)
def test_a_pod_of_a_job_is_known_by_either_label(label: str) -> None:
    spec = {"containers": [{"name": "web", "image": "nginx"}]}
    assert refusal(pod(spec, {label: "demo"}))


def test_a_pod_from_before_the_policy_can_be_cleaned_up_and_not_be_changed() -> None:
    spec = {"containers": [{"name": "web", "image": "nginx"}], "initContainers": []}
    before = pod(spec)
    finished = {**before, "metadata": {**before["metadata"], "finalizers": []}}
    assert refusal(finished, old=before) is None
    other_image = pod({**spec, "containers": [{"name": "web", "image": "nginx:2"}]})
    assert refusal(other_image, old=before)


@dataclass(frozen=True)
class Change:
    """A change of one field of a pod; a number in the path is an index, ``+`` appends."""

    path: str
    value: Any

    @property
    def words(self) -> set[str]:
        """Those that a validation of it has to have."""
        return set(re.findall("[A-Za-z]+", f"{self.path} {self.value}"))

    def applied(self, spec: dict[str, Any] | None = None) -> dict[str, Any]:
        """The pod of a job, or another one, so changed."""
        spec = pod_spec() if spec is None else spec
        *way, last = [int(each) if each.isdigit() else each for each in self.path.split(".")]
        holder: Any = spec
        for key in way:
            holder = holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key]
        if last == "+":
            holder.append(self.value)
        else:
            holder[last] = self.value
        return spec


def mount(path: str) -> Change:
    return Change("initContainers.0.volumeMounts.+", {"name": "data", "mountPath": path})


def volume(**source: Any) -> Change:
    return Change("volumes.+", {"name": "other", **source})


def host_path(path: str) -> Change:
    return volume(hostPath={"path": path})


def nfs(server: str, path: str) -> Change:
    return volume(nfs={"server": server, "path": path})


def variable(name: str, **more: Any) -> Change:
    return Change("initContainers.0.env.+", {"name": name, **more})


def image(*images: str) -> Iterator[Change]:
    return (Change("containers.0.image", each) for each in images)


def runtime_image(*images: str) -> Iterator[Change]:
    return (Change("initContainers.0.image", each) for each in images)


DIGEST = f"sha256:{64 * '0'}"
ALLOWED = [
    [
        *image("registry.example.com/team/a:1"),
        *runtime_image("registry.example.com/pai-runtime"),
        mount("/data"),
        mount("/mnt/etc"),
        mount("/usr/local/pai/bundle"),
    ],
    [
        *image(f"docker.io/library/debian@{DIGEST}"),
        *runtime_image(f"registry.example.com/pai-runtime@{DIGEST}"),
        host_path("/srv/pai"),
        host_path("/srv/pai/data"),
        nfs("nfs.example.com", "/exports/pai/alice"),
    ],
    [
        *image("debian"),
        volume(image={"reference": "registry.example.com/pai-runtime:0.1.0"}),
        Change("containers.0.securityContext.capabilities.add.+", "SYS_CHROOT"),
        Change("hostNetwork", value=False),
    ],
    [
        Change("priorityClassName", "urgent"),
        Change("tolerations", [{"key": "pool", "operator": "Equal", "value": "reserved"}]),
        Change("imagePullSecrets", [{"name": "registry"}, {"name": "demo-pull"}]),
        Change("schedulerName", "default-scheduler"),
    ],
]
"""What a pod may have at once."""
REFUSED = [
    Change("priorityClassName", "system-node-critical"),
    Change("priorityClassName", "system-cluster-critical"),
    Change("tolerations", [{"operator": "Exists"}]),
    Change("tolerations", [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
    Change("schedulerName", "of-mine"),
    Change("serviceAccountName", "deployer"),
    Change("serviceAccount", "deployer"),
    Change("runtimeClassName", "kata"),
    Change("imagePullSecrets", [{"name": "other-run-pull"}]),
    Change("imagePullSecrets", [{"name": "registry"}, {"name": "of-another-team"}]),
    Change("imagePullSecrets", [{}]),
    *image(
        "alice/debian",
        "debian.evil.example/library/debian",
        "registry.example.com.evil.example/a",
        "registry.example.com:5000/a",
        "localhost/a",
        "Docker.io/library/debian",
        "index.docker.io/alice/a",
        "EVIL/library/a",
    ),
    *runtime_image("registry.example.com/pai-runtime-of-mine:1", "docker.io/pai-runtime", "pai-runtime"),
    Change("initContainers.1.image", "debian"),
    *map(mount, ["/etc/pai-runtime", "/etc", "/opt/pai-runtime/env", "/usr", "/root/.config", "/"]),
    *map(mount, ["//etc", "/mnt/../etc", "etc", "/etc/", "/mnt/.", "/usr/local", "/usr/local/pai/x"]),
    *map(mount, ["/usr/local/pai-code", f"/usr/local/pai-code/{MOST_PARTS}", "/usr/local/pai-code/0/x"]),
    *map(host_path, ["/", "/srv", "/srv/pai2", "/srv/pai/../../etc", "/srv/pai//x", "/var/run/docker.sock"]),
    nfs("nfs.example.com", "/exports"),
    nfs("nfs.example.com", "/exports/pai/../secret"),
    nfs("other.example.com", "/exports/pai"),
    nfs("nfs.example.com:/exports/pai/..", "/secret"),
    volume(secret={"secretName": "registry-password"}),
    volume(secret={"secretName": "other-run-secrets"}),
    volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
    volume(image={"reference": "docker.io/library/debian"}),
    volume(image={"reference": "registry.example.com/pai-runtime-of-mine:1"}),
    volume(image={"reference": "registry.example.com/pai-runtime/of-mine"}),
    volume(image={"reference": "pai-runtime"}),
    volume(csi={"driver": "any"}),
    variable("PYTHONPATH", value="/mnt/data"),
    variable("LD_PRELOAD", value="/mnt/data/evil.so"),
    Change("initContainers.0.envFrom", [{"secretRef": {"name": "registry-password"}}]),
    Change("containers.0.env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "a"}}}]),
    Change("initContainers.0.command", ["/bin/sh"]),
    Change("initContainers.0.args", ["plan"]),
    Change("initContainers.1.args", ["run", "job.yaml"]),
    Change("initContainers.1.startupProbe", {"exec": {"command": ["/bin/sh"]}}),
    Change("initContainers.1.livenessProbe", {"exec": {"command": ["/bin/sh"]}}),
    Change("containers.0.readinessProbe", {"httpGet": {"host": "169.254.169.254", "port": 80}}),
    Change("containers.0.lifecycle", {"preStop": {"httpGet": {"host": "169.254.169.254", "port": 80}}}),
    Change("nodeName", "control-plane"),
    Change("securityContext.appArmorProfile", {"type": "Unconfined"}),
    Change("securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
    Change("containers.0.securityContext.windowsOptions", {"hostProcess": True}),
    Change("containers.0.securityContext.appArmorProfile", {"type": "Unconfined"}),
    Change("containers.0.securityContext.seLinuxOptions", {"type": "spc_t"}),
    Change("initContainers.0.name", "first"),
    Change("initContainers.0.restartPolicy", "Always"),
    Change("initContainers.+", {"name": "more", "image": "registry.example.com/pai-runtime:1"}),
    Change("initContainers", []),
    Change("containers.+", {"name": "more", "image": "debian", "command": ["/usr/local/pai/runtime"]}),
    Change("containers.0.command", ["sleep", "60"]),
    Change("containers.0.args", ["x"]),
    Change("containers.0.ports", [{"containerPort": 80, "hostPort": 80}]),
    Change("containers.0.securityContext.privileged", value=True),
    Change("containers.0.securityContext.procMount", "Unmasked"),
    Change("containers.0.securityContext.seccompProfile", {"type": "Unconfined"}),
    Change("containers.0.securityContext.capabilities.add.+", "SYS_ADMIN"),
    Change("securityContext.seccompProfile.type", "Unconfined"),
    Change("ephemeralContainers", [{"name": "debug", "image": "debian"}]),
    Change("automountServiceAccountToken", value=True),
    *(Change(each, value=True) for each in ("hostNetwork", "hostPID", "hostIPC")),
]


# All in one test each, since it takes longer to compile the expressions than to evaluate them.


def test_what_a_job_may_have_is_allowed() -> None:
    for changes in ALLOWED:
        spec = pod_spec()
        for each in changes:
            each.applied(spec)
        assert refusal(pod(spec)) == "", changes


def test_what_would_get_around_the_operator_is_refused() -> None:
    assert [each for each in REFUSED if not refusal(pod(each.applied()), likely=each.words)] == []


def test_a_job_is_refused_for_what_one_of_its_pods_would_be() -> None:
    for each in REFUSED[::18]:
        message = refusal(jobset(pod_spec(), each.applied()), resource="jobsets")
        assert message == refusal(pod(each.applied()))


QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def in_queue(name: str | None, **spec: Any) -> dict[str, Any]:
    document = jobset(pod_spec())
    document["metadata"]["labels"] = {} if name is None else {QUEUE_NAME: name}
    document["spec"] |= spec
    return document


@pytest.mark.parametrize(("queue", "allowed"), [("jobs", True), ("other", False), ("", False), (None, False)])
def test_where_there_are_queues_a_job_is_in_one_of_them_and_stays_there(
    queue: str | None, *, allowed: bool
) -> None:
    queues = {"queues": "['jobs']"}
    assert (refusal(in_queue(queue), resource="jobsets", edited=queues) == "") == allowed
    assert refusal(in_queue(queue), resource="jobsets") == "", "there are none"
    moved = refusal(in_queue(queue), old=in_queue("jobs"), resource="jobsets", edited=queues)
    assert moved is None if queue == "jobs" else moved
    stopped = in_queue(queue, suspend=True)
    assert refusal(stopped, old=in_queue(queue), resource="jobsets", edited=queues) is None


@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "example.com/of-mine"])
def test_nobody_but_the_controllers_of_the_cluster_manages_a_job(manager: str) -> None:
    by_other = in_queue("jobs", managedBy=manager)
    of_job = in_queue("jobs")
    of_job["spec"]["replicatedJobs"][0]["template"]["spec"]["managedBy"] = manager
    own = in_queue("jobs", managedBy="jobset.sigs.k8s.io/jobset-controller")
    assert refusal(own, resource="jobsets") == ""
    for document in (by_other, of_job):
        assert refusal(document, resource="jobsets")
        assert refusal(document, resource="jobsets", edited={"managers": f"['{manager}']"}) == ""


@pytest.mark.process
@pytest.mark.parametrize("cluster", ["default", "urgent"])
def test_what_the_example_profile_and_the_examples_of_queues_say_is_allowed_together(
    tmp_path: Path, cluster: str
) -> None:
    """With the lists of the policy as they are, and the queues of the example of queues."""
    lab = read_document(ROOT / "examples/kubernetes/engines.yaml").get("engines", "lab")
    assert lab is not None
    profile = read_profile(Profile("lab", "kubernetes", lab))
    storages = [{"name": name} for name in profile.storages]
    document = job(extras={"storages": storages}, defaults={"virtualCluster": cluster})
    document["prerequisites"][0]["uri"] = "python:3.12"
    rendered = render_job(tmp_path, document, profile).objects[0]
    queues = [
        each["metadata"]["name"]
        for each in yaml.safe_load_all((DEPLOY / "kueue.yaml").read_text("utf-8"))
        if each["kind"] == "LocalQueue"
    ]
    assert refusal(rendered, resource="jobsets", edited={"queues": str(queues)}) == ""
    assert f"--tag {profile.runtime_image} " in (ROOT / "docs/kubernetes.md").read_text("utf-8")


def test_a_job_may_not_borrow_the_secrets_of_a_run_by_its_label() -> None:
    other = jobset(pod_spec(), name="mine")
    other["metadata"]["labels"] = LABELS
    assert refusal(other, resource="jobsets")


@pytest.mark.parametrize(
    ("user", "creates"),
    [
        ("alice", False),
        ("system:serviceaccount:team-a:default", False),
        ("system:serviceaccount:kube-system-of-mine:default", False),
        ("system:serviceaccount:kube-system:job-controller", True),
        ("system:kube-controller-manager", True),
        ("system:node:node-1", True),
    ],
)
def test_people_may_have_a_pod_checked_and_only_controllers_create_one(user: str, *, creates: bool) -> None:
    assert may_create_a_pod(user, dry_run=True)
    assert may_create_a_pod(user, dry_run=False) == creates


def may_create_a_pod(user: str, *, dry_run: bool) -> bool:
    """By the second policy, for a pod with any labels."""
    spec = CREATORS["spec"]
    known = {"request": celpy.json_to_cel({"dryRun": dry_run, "userInfo": {"username": user}})}
    known["variables"] = celpy.json_to_cel({})
    for variable in spec["variables"]:
        name = celpy.json_to_cel(variable["name"])
        known["variables"][name] = program(variable["expression"]).evaluate(known)
    return all(holds(each["expression"], known) for each in spec["validations"])
