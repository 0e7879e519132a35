"""A cluster of one node: what JobSet, Job and the kubelet make of a run's objects, once."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import choice
from typing import Any
from uuid import uuid4

from tests.containers.kubelet import Pod
from tests.containers.names import NAMESPACE, Network
from tests.containers.volumes import Available, Image, Object

_JOBSET = "jobset.sigs.k8s.io"
_BATCH = "batch.kubernetes.io"
_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
_INDEX = f"{_BATCH}/job-completion-index"
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{_INDEX}']"}},
}


@contextmanager
def started_cluster(
    folder: Path, images: Mapping[str, Image], storages: Mapping[str, Path]
) -> Iterator["Cluster"]:
    """A cluster with these images, and these directories as storages; nothing is left of it afterwards."""
    with ExitStack() as closing:
        closing.callback(guard(folder).communicate)
        network = Network(folder / "network")
        closing.callback(network.close)
        threads = closing.enter_context(ThreadPoolExecutor(64))
        yield Cluster(folder, network, images, storages, threads, closing)


class Cluster:
    """`pods` are those that were started, by replicated job and index."""

    def __init__(
        self,
        folder: Path,
        network: Network,
        images: Mapping[str, Image],
        storages: Mapping[str, Path],
        threads: Executor,
        closing: ExitStack,
    ) -> None:
        self._folder, self._network, self._threads, self._closing = folder, network, threads, closing
        self._objects: dict[tuple[str, str], Object] = {}
        self._available = Available(self._objects, images, storages)
        self.pods: dict[tuple[str, int], Pod] = {}

    def create(self, objects: Iterable[Object]) -> None:
        """Keep the objects, each with a UID."""
        for each in objects:
            key = each["kind"], each["metadata"]["name"]
            assert key not in self._objects, f"409: {key} exists"
            self._objects[key] = {**each, "metadata": {**each["metadata"], "uid": str(uuid4())}}

    def start(self, *roles: str) -> None:
        """Start the pods of these task roles (of the JobSet's replicated jobs); without any, all."""
        for (kind, _), each in list(self._objects.items()):
            if kind == "JobSet":
                for role, index, manifest in _pods(each):
                    if not roles or role in roles:
                        self._start(role, index, manifest)

    def _start(self, role: str, index: int, manifest: Object) -> None:
        folder = self._folder / manifest["metadata"]["name"]
        pod = self.pods[role, index] = Pod(manifest, folder, self._network, self._available)
        self._closing.callback(pod.close)
        self._network.publish(pod.sandbox)
        pod.start(self._threads)

    def wait(self) -> dict[tuple[str, int], dict[str, int]]:
        """Wait for the end of all pods: the exit codes of their containers."""
        return {task: pod.wait() for task, pod in self.pods.items()}


def guard(folder: Path) -> subprocess.Popen[bytes]:
    """A process that ends all containers below a folder once nobody has its input open, however that came."""
    kill = (
        'read -r _; for state in "$1"/*/state; do for id in "$state"/*; do'
        ' runc --root "$state" kill "${id##*/}" KILL; done; done 2>/dev/null'
    )
    return subprocess.Popen(["sh", "-c", kill, "sh", folder], stdin=subprocess.PIPE, start_new_session=True)


def _pods(jobset: Object) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The pods of a JobSet, with their replicated job and index, as the controllers make them at first."""
    assert jobset["apiVersion"] == f"{_JOBSET.replace('sigs.k8s', 'x-k8s')}/v1alpha2"
    for replicated in jobset["spec"]["replicatedJobs"]:
        for index in range(replicated["template"]["spec"]["completions"]):
            yield replicated["name"], index, pod_of(jobset, replicated, index)


def labels_of_job(jobset: Object, name: str, restarts: int = 0) -> dict[str, str]:
    """What JobSet adds to the labels and annotations of a Job, and of its pods."""
    return {
        f"{_JOBSET}/jobset-name": jobset["metadata"]["name"],
        f"{_JOBSET}/jobset-uid": jobset["metadata"]["uid"],
        f"{_JOBSET}/replicatedjob-name": name,
        f"{_JOBSET}/replicatedjob-replicas": "1",
        f"{_JOBSET}/job-index": "0",
        f"{_JOBSET}/restart-attempt": str(restarts),
    }


def pod_of(
    jobset: Object, replicated: Object, index: int, restarts: int = 0, failures: int = 0, ignored: int = 0
) -> dict[str, Any]:
    """The pod of an index of an Indexed Job of a JobSet.

    It comes after so many restarts of the JobSet, and failures of the index that count and that do not.
    """
    run, name = jobset["metadata"]["name"], replicated["name"]
    network = jobset["spec"]["network"]
    assert network["enableDNSHostnames"], "the pods would have no names"
    assert network["publishNotReadyAddresses"], "no name is known before all of its pods are ready"
    assert replicated.get("replicas", 1) == 1
    spec = replicated["template"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["parallelism"] == spec["completions"]
    job = f"{run}-{name}-0"
    template = spec["template"]
    of_template = template.get("metadata", {})
    added = labels_of_job(jobset, name, restarts)
    annotations = {**of_template.get("annotations", {}), **added, _INDEX: str(index)}
    if "backoffLimitPerIndex" in spec:
        annotations[f"{_BATCH}/job-index-failure-count"] = str(failures)
        if ignored:
            annotations[f"{_BATCH}/job-index-ignored-failure-count"] = str(ignored)
    labels = {**of_template.get("labels", {}), **added, f"{_BATCH}/job-name": job, _INDEX: str(index)}
    hostname = f"{job}-{index}"
    metadata = {
        "name": f"{hostname}-{''.join(choice(_RANDOM) for _ in range(5))}",
        "namespace": NAMESPACE,
        "uid": str(uuid4()),
        "labels": labels,
        "annotations": annotations,
    }
    for value in (metadata["name"], hostname, *labels.values()):
        assert len(value) <= 63, value
    containers = {
        kind: [{**each, "env": [*each.get("env", ()), _INDEX_VARIABLE]} for each in template["spec"][kind]]
        for kind in ("initContainers", "containers")
        if kind in template["spec"]
    }
    subdomain = network.get("subdomain") or run
    return {
        "metadata": metadata,
        "spec": {**template["spec"], **containers, "hostname": hostname, "subdomain": subdomain},
    }
