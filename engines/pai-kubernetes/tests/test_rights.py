"""The roles in ``deploy/kubernetes/rbac.yaml`` allow what the engine asks for, and no more."""

import contextlib
from pathlib import Path

import pytest
import yaml

from pai_document.document import parse_document
from pai_document.problems import Problems
from pai_kubernetes.api import paths
from pai_kubernetes.api.paths import target_of
from pai_kubernetes.cluster import KubernetesCluster
from pai_kubernetes.labels import COMPLETION_INDEX, JOBSET_NAME, REPLICATED_JOB
from pai_kubernetes.run.reader import Reader
from pai_pod.told_variables import told_line
from pai_runtime.engines.interface import RunRequest
from pai_runtime.engines.profiles import Profile
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.errors import CannotEnter
from pai_runtime.runs.state import Run
from pai_runtime.terminal.following import follow
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import PlayedView
from tests.support import ROOT, job, write_job

ROLES = {
    each["metadata"]["name"]: each["rules"]
    for each in yaml.safe_load_all((ROOT / "deploy/kubernetes/rbac.yaml").read_text("utf-8"))
}
PROFILE = """
engine: kubernetes
runtimeImage: registry.example.com/pai-runtime:1
storages: {datasets: {claim: datasets}}
virtualClusters: {default: {queue: jobs, priorityClass: urgent}}
"""

Right = tuple[str, str]
"""A verb, and a resource with its group."""


@pytest.fixture
def server(server: ApiServer) -> ApiServer:
    namespace = server.namespace
    node = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    server.put(paths.nodes(), {"metadata": {"name": "node"}, "status": {"allocatable": node}})
    server.put(paths.priority_classes(), {"metadata": {"name": "urgent"}})
    server.put(paths.persistent_volume_claims(namespace), {"metadata": {"name": "datasets"}})
    server.put(paths.local_queues(namespace, "v1beta1"), {"metadata": {"name": "jobs"}})
    return server


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> KubernetesCluster:
    text = f"{PROFILE}kubeconfig: {server.kubeconfig(tmp_path)}"
    return KubernetesCluster(Profile("lab", "kubernetes", parse_document(text, "engines.yaml")))


def allowed(*roles: str) -> set[Right]:
    return {
        (verb, f"{resource}.{group}" if group else resource)
        for role in roles
        for rule in ROLES[role]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(server: ApiServer) -> set[Right]:
    """What was asked for; what everybody may see, such as the version, needs no right."""
    targets = ((request.verb, target_of(request.path)) for request in server.requests)
    return {(verb, target.full_resource) for verb, target in targets if target.namespace or target.version}


def submitted(cluster: KubernetesCluster, folder: Path) -> str:
    """As ``run`` does it; the name of the run."""
    document = job(
        extras={"storages": [{"name": "datasets"}]},
        secrets={"key": "value"},
        worker={"commands": ["echo <% $secrets.key %>"]},
    )
    problems = Problems()
    run = cluster.new_run(RunRequest("alice"))
    plans = plan_job(JobFiles(write_job(folder, document)), Host(), run.place, problems).plans()
    run.check(plans, problems)
    problems.check()
    return run.submit(plans, {"key": "value"}).named


def played(server: ApiServer, name: str) -> None:
    """What Kueue, JobSet and the kubelet make of a run: its task is running."""
    namespace = server.namespace
    jobset = server.get(paths.jobsets(namespace, name))
    assert jobset
    uid = jobset["metadata"]["uid"]
    workload = {"metadata": {"name": "workload", "labels": {"kueue.x-k8s.io/job-uid": uid}}}
    server.put(paths.workloads(namespace, "v1beta1"), workload)
    [replicated] = jobset["spec"]["replicatedJobs"]
    template = replicated["template"]["spec"]["template"]
    labels = {**template["metadata"]["labels"], JOBSET_NAME: name, COMPLETION_INDEX: "0"}
    labels[REPLICATED_JOB] = replicated["name"]
    annotations = {**template["metadata"]["annotations"], COMPLETION_INDEX: "0"}
    metadata = {"name": f"{name}-worker-0-0-abcde", "labels": labels, "annotations": annotations}
    pod = {"metadata": metadata, "spec": template["spec"], "status": run_objects.running()}
    server.put(paths.pods(namespace), pod)
    server.log(f"{name}-worker-0-0-abcde", "app", b"hello\n")
    told = told_line({"PAI_TASK_INDEX": {"source": "platform", "value": "0"}})
    server.log(f"{name}-worker-0-0-abcde", "runtime-log", told, ended=True)


def look(server: ApiServer, cluster: KubernetesCluster, name: str) -> None:
    """As ``ps``, ``logs`` and ``variables`` do it, and whoever follows."""
    cluster.runs()
    with contextlib.closing(cluster._runs):
        cluster.runs()  # as `ps --watch` does
        server.wait_for(lambda: ("watch", "jobs.batch") in asked(server))
        server.wait_for(lambda: ("watch", "jobsets.jobset.x-k8s.io") in asked(server))
    reader = cluster.open_run(name)
    run = reader.run()
    assert isinstance(run, Run)
    [task] = run.tasks
    variables = reader.variables(task)
    assert variables.known
    assert not variables.missing
    with contextlib.closing(reader.log(task, "user")) as log:
        while not log.read(1 << 16):
            pass
    end(server, name, cluster.open_run(name))


def end(server: ApiServer, name: str, reader: Reader) -> None:
    """Follow a run that ends meanwhile."""
    pod = f"{name}-worker-0-0-abcde"

    def script(_run: Run) -> None:
        server.log(pod, "app", b"", ended=True)
        server.change(paths.pods(server.namespace, pod), {"status": run_objects.terminated(0)})
        server.change(paths.jobsets(server.namespace, name), {"status": run_objects.ended("Completed")})

    follow(reader, PlayedView(script))


@pytest.mark.process
def test_people_may_do_what_the_commands_do_and_no_more(
    server: ApiServer, cluster: KubernetesCluster, tmp_path: Path
) -> None:
    name = submitted(cluster, tmp_path)
    cluster.open_run(name).run()  # it waits in its queue
    played(server, name)
    cluster.open_run(name).cancel()
    look(server, cluster, name)
    cluster.open_run(name).remove()
    assert asked(server) == allowed("pai-runtime-user", "pai-runtime-nodes", "pai-runtime-dry-runs")
    pods = [each for each in server.requests if (each.verb, each.kind) == ("create", "/api/v1/pods")]
    assert {each.query.get("dryRun") for each in pods} == {"All"}


@pytest.mark.process
def test_who_may_only_look_can_look_and_no_more(
    server: ApiServer, cluster: KubernetesCluster, tmp_path: Path
) -> None:
    name = submitted(cluster, tmp_path)
    server.requests.clear()
    cluster.open_run(name).run()
    played(server, name)
    look(server, cluster, name)
    assert asked(server) == allowed("pai-runtime-reader")


@pytest.mark.process
def test_who_may_enter_tasks_can_do_so_and_no_more(
    server: ApiServer, cluster: KubernetesCluster, tmp_path: Path
) -> None:
    name = submitted(cluster, tmp_path)
    played(server, name)
    reader = cluster.open_run(name)
    run = reader.run()
    assert isinstance(run, Run)
    server.requests.clear()
    server.program = lambda *_: ["true"]
    assert reader.exec(run.tasks[0], ["true"]) == 0
    with contextlib.suppress(CannotEnter), reader.connected(run.tasks[0], "http://10.0.0.1:1"):
        pass
    assert {("get", resource) for _, resource in asked(server)} | asked(server) == allowed(
        "pai-runtime-entering"
    )


def test_nobody_may_read_secrets() -> None:
    assert {verb for verb, resource in allowed(*ROLES) if resource == "secrets"} == {"create"}


def test_no_role_has_more_than_it_names() -> None:
    assert not [right for right in allowed(*ROLES) if "*" in "".join(right)]
