"""What a cluster cannot give to a job is said before anything is created, with its line in the job."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import parse_document
from pai_document.problems import Problem, Problems
from pai_kubernetes.api import client, paths
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.cluster_checks import check_cluster
from pai_kubernetes.labels import JOBSET_NAME
from pai_kubernetes.node_capacity import quantity
from pai_kubernetes.profile import KubernetesProfile, SkuType, Storage, VirtualCluster
from pai_kubernetes.reading import read_profile
from pai_runtime.engines.profiles import Profile
from pai_task.record import replace
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import api_of
from tests.kubernetes.rendering import RUN, planned, render_file
from tests.support import ROOT, job, line_of, write_job

PROFILE = KubernetesProfile(
    "lab",
    "registry.example.com/runtime:1",
    storages={"datasets": Storage("datasets", claim="datasets")},
    virtual_clusters={"default": VirtualCluster("default"), "fast": VirtualCluster("fast", queue="jobs")},
    sku_types={"A100": SkuType("A100", "nvidia.com/gpu", {"gpu": "a100"})},
)
GPUS = {"resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 8}}
JOB = "spec.replicatedJobs[0].template.spec"
CONTAINER = f"{JOB}.template.spec.containers[0]"


@pytest.fixture
def server(server: ApiServer) -> ApiServer:
    add_node(server, "small", {"cpu": "4", "memory": "8Gi"})
    large = {"cpu": "63500m", "memory": "256Gi", "nvidia.com/gpu": "4"}
    add_node(server, "large", large, {"gpu": "a100"})
    return server


def add_node(
    server: ApiServer, name: str, amounts: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> None:
    metadata = {"name": name, "labels": labels or {}}
    server.put(paths.nodes(), {"kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}})


def problems_of(
    server: ApiServer, folder: Path, document: dict[str, Any], profile: KubernetesProfile = PROFILE
) -> tuple[Problem, ...]:
    path = write_job(folder, document)
    problems = Problems()
    rendered = render_file(path, profile)
    check_cluster(api_of(server), rendered, planned(path).job, profile, problems)
    return problems.in_order


def found(
    server: ApiServer, folder: Path, document: dict[str, Any], profile: KubernetesProfile = PROFILE
) -> set[tuple[str, str, int]]:
    """The code, the field and the line of each problem."""
    problems = problems_of(server, folder, document, profile)
    return {(each.code, each.field, each.position.line if each.position else 0) for each in problems}


@pytest.mark.process
def test_a_job_that_the_cluster_can_give_all_has_no_problems_and_nothing_is_created(
    server: ApiServer, tmp_path: Path
) -> None:
    claim = {"metadata": {"name": "datasets"}}
    server.put(paths.persistent_volume_claims(server.namespace), claim)
    server.put(paths.local_queues(server.namespace, "v1beta1"), {"metadata": {"name": "jobs"}})
    document = job(extras={"storages": [{"name": "datasets"}]}, defaults={"virtualCluster": "fast"})
    assert problems_of(server, tmp_path, document) == ()
    assert server.list(paths.jobsets(server.namespace)) == []
    assert server.list(paths.secrets(server.namespace)) == []
    assert server.list(paths.config_maps(server.namespace)) == []


@pytest.mark.process
def test_no_value_of_a_secret_is_sent_to_be_checked(server: ApiServer, tmp_path: Path) -> None:
    document = job(secrets={"key": "a-secret-value"}, worker={"commands": ["echo <% $secrets.key %>"]})
    assert problems_of(server, tmp_path, document) == ()
    sent = [request.document for request in server.requests if request.verb == "create"]
    assert {each["kind"] for each in sent} == {"JobSet", "Pod", "ConfigMap", "Secret"}
    secrets = [each for each in sent if each["kind"] == "Secret"]
    assert {value for each in secrets for value in each["data"].values()} == {"e30="}


@pytest.mark.process
@pytest.mark.parametrize(
    ("resources", "field", "best"),
    [
        ({"cpu": 64, "memoryMB": 100, "gpu": 0}, "cpu", "63.5"),
        ({"cpu": 1, "memoryMB": 262144, "gpu": 0}, "memoryMB", "256.0 GiB"),
        ({"cpu": 1, "memoryMB": 100, "gpu": 8}, "gpu", "4 nvidia.com/gpu"),
    ],
)
def test_more_than_any_node_has_is_refused_and_the_best_node_is_named(
    server: ApiServer, tmp_path: Path, resources: dict[str, int], field: str, best: str
) -> None:
    [problem] = problems_of(server, tmp_path, job(worker={"resourcePerInstance": resources}))
    assert (problem.code, problem.field) == (
        "exceeds-nodes",
        f"taskRoles.worker.resourcePerInstance.{field}",
    )
    assert problem.position
    assert problem.position.line == line_of(tmp_path, f"{field}: {resources[field]}")
    assert best in problem.message
    assert "large" in problem.message


@pytest.mark.process
def test_only_nodes_of_the_type_that_is_asked_for_count(server: ApiServer, tmp_path: Path) -> None:
    add_node(server, "other", {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"})
    sku = {"extras": {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "A100", "skuNum": 1}}}}}
    assert problems_of(server, tmp_path, job(worker=GPUS)) == ()
    assert {code for code, *_ in found(server, tmp_path, job(worker=GPUS, **sku))} == {"exceeds-nodes"}
    server.remove(paths.nodes("large"))
    field = "extras.hivedScheduler.taskRoles.worker.skuType"
    told = found(server, tmp_path, job(worker=GPUS, **sku))
    assert told == {("no-node", field, line_of(tmp_path, "skuType"))}


@pytest.mark.process
def test_who_may_not_list_nodes_can_still_run_jobs(server: ApiServer, tmp_path: Path) -> None:
    server.forbidden.add(("list", "nodes"))
    [problem] = problems_of(server, tmp_path, job(worker=GPUS))
    assert (problem.code, problem.severity) == ("not-checked", "note")


@pytest.mark.process
def test_a_claim_that_is_not_there_is_told_where_the_job_asks_for_the_storage(
    server: ApiServer, tmp_path: Path
) -> None:
    document = job(extras={"storages": [{"name": "datasets"}]}, worker={"instances": 3})
    told = found(server, tmp_path, document)
    assert told == {("no-claim", "extras.storages[0].name", line_of(tmp_path, "- name: datasets"))}


@pytest.mark.process
@pytest.mark.parametrize("installed", [True, False], ids=["without the queue", "without Kueue"])
def test_a_queue_that_is_not_there_is_told_at_the_virtual_cluster(
    server: ApiServer, tmp_path: Path, *, installed: bool
) -> None:
    if not installed:
        server.installed -= {each for each in server.installed if each.startswith("kueue")}
    told = found(server, tmp_path, job(defaults={"virtualCluster": "fast"}))
    assert told == {("no-queue", "defaults.virtualCluster", line_of(tmp_path, "virtualCluster"))}


@pytest.mark.process
@pytest.mark.parametrize(
    ("causes", "field", "written"),
    [
        ([(f"{CONTAINER}.image", "bad image")], "prerequisites[0].uri", "uri:"),
        (
            [(f"{CONTAINER}.resources.limits.cpu", "no"), (f"{CONTAINER}.resources.limits.memory", "no")],
            "taskRoles.worker.resourcePerInstance.memoryMB",
            "memoryMB",
        ),
        (
            [("spec.replicatedJobs[0].template.spec.completions", "no")],
            "taskRoles.worker.instances",
            "instances",
        ),
    ],
)
def test_what_the_server_finds_wrong_is_told_where_the_job_has_it(
    server: ApiServer, tmp_path: Path, causes: list[tuple[str, str]], field: str, written: str
) -> None:
    server.admit = lambda target, _: (
        [{"field": field, "message": message} for field, message in causes]
        if target.resource == "jobsets"
        else []
    )
    told = found(server, tmp_path, job(worker={"instances": 2}))
    assert ("refused-by-cluster", field, line_of(tmp_path, written)) in told
    assert len(told) == len(causes)


@pytest.mark.process
def test_a_field_in_the_words_of_a_webhook_is_followed_too(server: ApiServer, tmp_path: Path) -> None:
    said = f'admission webhook "vjobset.kb.io" denied the request: [{CONTAINER}.image: Invalid value: "x"]'
    server.arm(Fault(403, "Forbidden", said), "create", "jobsets.jobset.x-k8s.io")
    [problem] = problems_of(server, tmp_path, job())
    assert (problem.code, problem.field) == ("refused-by-cluster", "prerequisites[0].uri")
    assert "rbac.yaml" not in problem.message


@pytest.mark.process
def test_an_admission_policy_speaks_for_itself(server: ApiServer, tmp_path: Path) -> None:
    said = "ValidatingAdmissionPolicy 'pai-runtime' denied request: no such registry"
    causes = [{"message": "no such registry"}]
    server.arm(Fault(422, "Invalid", said, causes), "create", "jobsets.jobset.x-k8s.io")
    [problem] = problems_of(server, tmp_path, job())
    assert "no such registry" in problem.message
    assert problem.field == "JobSet"


def forbidden(why: str) -> Fault:
    return Fault(403, "Forbidden", f'pods "test-bcdfg-worker-0-0" is forbidden: {why}')


def invalid(field: str) -> Fault:
    return Fault(422, "Invalid", "the Pod is invalid", [{"field": field, "message": "not so"}])


@pytest.mark.process
@pytest.mark.parametrize(
    ("fault", "code", "field"),
    [
        (invalid("spec.containers[0].image"), "refused-by-cluster", "prerequisites[0].uri"),
        (
            invalid("spec.containers[0].resources.requests[nvidia.com/gpu]"),
            "refused-by-cluster",
            "taskRoles.worker.resourcePerInstance.gpu",
        ),
        (invalid("spec.volumes[3].hostPath.path"), "refused-by-cluster", "extras.storages[0].name"),
        (
            invalid("spec.containers[0].volumeMounts[1].mountPath"),
            "refused-by-cluster",
            "extras.storages[0].name",
        ),
        (invalid("spec.initContainers[0].env[2].name"), "refused-by-cluster", "taskRoles.worker"),
        (forbidden('violates PodSecurity "restricted:latest"'), "refused-by-cluster", "taskRoles.worker"),
        (forbidden("maximum cpu usage per Pod is 1"), "refused-by-cluster", "taskRoles.worker"),
        (forbidden("failed quota: team: must specify cpu"), "refused-by-cluster", "taskRoles.worker"),
        (Fault(400, "BadRequest", "unknown field"), "refused-by-cluster", "taskRoles.worker"),
        (
            forbidden("exceeded quota: team, requested: cpu=1, used: cpu=4, limited: cpu=4"),
            "exceeded-quota",
            "taskRoles.worker",
        ),
        (Fault(400, "BadRequest", 'admission webhook "x" does not support dry run'), "not-checked", ""),
    ],
)
def test_what_only_its_pods_would_be_refused_for_is_told_where_the_job_has_it(
    server: ApiServer, tmp_path: Path, fault: Fault, code: str, field: str
) -> None:
    server.put(paths.persistent_volume_claims(server.namespace), {"metadata": {"name": "datasets"}})
    server.arm(fault, "create", "pods")
    [problem] = problems_of(server, tmp_path, job(extras={"storages": [{"name": "datasets"}]}))
    assert (problem.code, problem.field) == (code, field)
    severities = {"exceeded-quota": "warning", "not-checked": "note"}
    assert problem.severity == severities.get(code, "error")
    assert "rbac.yaml" not in problem.message


@pytest.mark.process
def test_a_pod_is_tried_for_each_role_as_its_controllers_will_make_it(
    server: ApiServer, tmp_path: Path
) -> None:
    document = job()
    document["taskRoles"]["server"] = document["taskRoles"]["worker"]
    server.admit = lambda target, _: (
        [{"field": "spec.containers[0].resources", "message": "no"}] if "server" in target.name else []
    )
    [problem] = problems_of(server, tmp_path, document)
    assert problem.field == "taskRoles.server.resourcePerInstance"
    tried = [request.document for request in server.requests if request.kind == paths.pods("")]
    assert [each["metadata"]["name"] for each in tried] == [f"{RUN}-worker-0-0", f"{RUN}-server-0-0"]
    for each in tried:
        assert each["metadata"]["labels"][JOBSET_NAME] == each["spec"]["subdomain"] == RUN


@pytest.mark.process
def test_pods_are_tried_of_a_jobset_that_is_refused_and_what_is_said_of_both_is_said_once(
    server: ApiServer, tmp_path: Path
) -> None:
    server.arm(Fault(422, "Invalid", "no"), "create", "jobsets.jobset.x-k8s.io")
    server.arm(forbidden("maximum cpu usage per Pod is 1"), "create", "pods")
    told = problems_of(server, tmp_path, job())
    assert {each.field for each in told} == {"taskRoles.worker", "JobSet"}
    said = "ValidatingAdmissionPolicy 'any' with binding 'any' denied request: no such registry"
    for resource in ("jobsets.jobset.x-k8s.io", "pods"):
        server.arm(denied(said), "create", resource)
    [problem] = problems_of(server, tmp_path, job())
    assert (problem.field, problem.message.count("no such registry")) == ("taskRoles.worker", 1)


def denied(said: str) -> Fault:
    """By a ValidatingAdmissionPolicy: the cause has no field."""
    return Fault(422, "Invalid", f'jobsets "test" is forbidden: {said}', [{"message": said}])


def policy_words(of: str) -> str:
    """What the policy of deploy/ says of a list of its operator."""
    path = ROOT / "deploy/kubernetes/admission-policy.yaml"
    policy = next(yaml.safe_load_all(path.read_text("utf-8")))
    [said] = [
        each["message"]
        for each in policy["spec"]["validations"]
        if f"({of} of the ValidatingAdmissionPolicy" in each["message"]
    ]
    return f"ValidatingAdmissionPolicy 'pai-runtime' with binding 'pai-runtime' denied request: {said}"


@pytest.mark.process
@pytest.mark.parametrize(
    ("hard", "more", "gang", "is_refused"),
    [
        ({"requests.cpu": "2"}, {}, True, True),
        ({"cpu": "3"}, {}, True, False),
        ({"requests.cpu": "2"}, {}, False, False),
        ({"requests.cpu": "1"}, {}, False, True),
        ({"pods": "1"}, {}, True, True),
        ({"requests.nvidia.com/gpu": "1"}, {}, True, True),
        ({"requests.cpu": "2"}, {"scopes": ["BestEffort"]}, True, False),
        ({"requests.cpu": "odd", "count/secrets": "0"}, {"hard": None}, True, False),
    ],
)
def test_tasks_that_can_never_fit_a_quota_at_once_are_refused_whatever_is_used_now(
    server: ApiServer,
    tmp_path: Path,
    hard: dict[str, str],
    more: dict[str, Any],
    gang: bool,  # noqa: FBT001 - a column of the table
    is_refused: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Two tasks of a core and a GPU each, beside their sidecars."""
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard, **more}}
    server.put(paths.resource_quotas(server.namespace), quota)
    resources = {"cpu": 1, "memoryMB": 100, "gpu": 1}
    document = job(worker={"instances": 2, "resourcePerInstance": resources}, extras={"gangAllocation": gang})
    told = [each for each in problems_of(server, tmp_path, document) if each.code == "exceeds-quota"]
    assert bool(told) == is_refused
    assert all(each.field == "taskRoles" and "'team'" in each.message for each in told)


@pytest.mark.process
@pytest.mark.parametrize("has_right", [True, False])
@pytest.mark.parametrize(
    ("of", "place", "field"),
    [
        ("registries", "job.yaml", "prerequisites[0].uri"),
        ("runtimeImages", "engines.yaml", "runtimeImage"),
    ],
)
def test_what_the_admission_policy_denies_is_told_where_it_is_written(
    server: ApiServer,
    tmp_path: Path,
    of: str,
    place: str,
    field: str,
    has_right: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """With a right to have pods checked, or without."""
    root = parse_document("engine: kubernetes\nruntimeImage: wrong.example/x:1\n", "engines.yaml")
    profile = read_profile(Profile("lab", "kubernetes", root))
    server.arm(denied(policy_words(of)), "create", "jobsets.jobset.x-k8s.io")
    if has_right:
        server.arm(denied(policy_words(of)), "create", "pods", times=2)
    else:
        server.forbidden.add(("create", "pods"))
    document = job()
    document["taskRoles"]["server"] = document["taskRoles"]["worker"]
    told = [
        each for each in problems_of(server, tmp_path, document, profile) if each.code == "refused-by-cluster"
    ]
    assert {each.field for each in told} == {field}
    assert all(each.position and Path(each.position.file).name == place for each in told)
    assert len(told) == 1


@pytest.mark.process
@pytest.mark.parametrize(("allowed", "tried"), [(True, 16), (False, 1)])
def test_pods_of_many_roles_are_not_all_tried_which_is_said_once(
    server: ApiServer, tmp_path: Path, *, allowed: bool, tried: int
) -> None:
    server.forbidden |= set() if allowed else {("create", "pods")}
    document = job()
    worker = document["taskRoles"]["worker"]
    document["taskRoles"] = {f"role{number}": worker for number in range(17)}
    [problem] = problems_of(server, tmp_path, document)
    assert (problem.code, problem.severity) == ("not-checked", "note")
    assert server.counts["create", paths.pods("")] == tried
    assert ("rbac.yaml" in problem.message) is not allowed
    assert server.counts["list", paths.nodes()] == 1


@pytest.mark.process
def test_what_the_server_warns_of_is_told_once_each_as_a_terminal_may_show_it(
    server: ApiServer, tmp_path: Path
) -> None:
    warning = Fault(headers={"Warning": '299 - "batch/v0 \\"Job\\" is old\x1b[2J"'})
    server.arm(warning, "create", times=2)
    server.arm(Fault(headers={"Warning": f'299 - "{10_000 * "x"}"'}), "create")
    server.arm(Fault(headers={"Warning": "something else"}), "get")
    old, long = problems_of(server, tmp_path, job())
    assert (old.code, old.severity) == ("cluster-warning", "warning")
    assert 'batch/v0 "Job" is old' in old.message
    assert "\x1b" not in old.message
    assert len(long.message) < 1100


@pytest.mark.process
@pytest.mark.parametrize("exists", [True, False])
def test_a_priority_class_that_is_not_there_is_told(
    server: ApiServer, tmp_path: Path, *, exists: bool
) -> None:
    if exists:
        server.put(paths.priority_classes(), {"metadata": {"name": "urgent"}})
    cluster = VirtualCluster("default", priority_class="urgent")
    profile = replace(PROFILE, virtual_clusters={"default": cluster})
    codes = [code for code, _, _ in found(server, tmp_path, job(), profile)]
    assert codes == ([] if exists else ["no-priority-class"])


@pytest.mark.process
def test_a_right_that_is_missing_is_told_once_for_each_kind(server: ApiServer, tmp_path: Path) -> None:
    server.forbidden |= {("create", "secrets"), ("create", "configmaps")}
    told = problems_of(server, tmp_path, job())
    assert sorted(each.field for each in told) == ["ConfigMap", "Secret"]
    assert all("rbac.yaml" in each.message for each in told)


@pytest.mark.process
def test_where_jobset_is_not_installed_nothing_else_is_asked(server: ApiServer, tmp_path: Path) -> None:
    server.installed.remove("jobset.x-k8s.io/v1alpha2")
    [problem] = problems_of(server, tmp_path, job())
    assert problem.code == "refused-by-cluster"
    assert server.counts["list", paths.nodes()] == 0


@pytest.mark.process
@pytest.mark.parametrize(
    ("minor", "delivery", "severities"),
    [
        ("33", "copy", []),
        ("32+", "copy", ["error"]),
        ("34", "imageVolume", ["warning"]),
        ("35", "imageVolume", []),
        ("what?", "copy", []),
    ],
)
def test_a_version_that_is_too_old_is_told(
    server: ApiServer, tmp_path: Path, minor: str, delivery: Any, severities: list[str]
) -> None:
    server.arm(Fault(body=json.dumps({"major": "1", "minor": minor}).encode()), "get")
    told = problems_of(server, tmp_path, job(), replace(PROFILE, delivery=delivery))
    assert [each.severity for each in told] == severities


@pytest.mark.process
@pytest.mark.parametrize("fault", [Fault(500), Fault(401), Fault(hang_up=True)])
def test_a_server_that_cannot_be_asked_is_no_problem_of_the_job(
    server: ApiServer, tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SECONDS", 0.1)
    server.arm(fault, "create", times=10**6)
    with pytest.raises(ApiError):
        problems_of(server, tmp_path, job())


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("4", 4),
        ("250m", 0.25),
        ("64Gi", 64 * 2**30),
        ("1k", 1000),
        ("2.5", 2.5),
        ("1e3", 1000),
        ("129e6", 129e6),
        ("500M", 500e6),
        (8, 8),
        ("", 0),
        ("many", 0),
        (None, 0),
        (["4"], 0),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(written: Any, amount: float) -> None:
    assert quantity(written) == amount
