"""The engine for Kubernetes passes the tests that every engine has to pass, on a stand-in for a cluster.

What JobSet and Job decide there, the model of these decides from what the engine has submitted.
"""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("pai_conformance")

from pai_conformance import Conformance, Stage  # noqa: E402 - as above
from pai_document.document import parse_document  # noqa: E402 - as above
from pai_kubernetes.api import paths  # noqa: E402 - rewritten, as above
from pai_kubernetes.cluster import KubernetesCluster  # noqa: E402 - as above
from pai_kubernetes.labels import ROLES  # noqa: E402 - as above
from pai_pod.told_variables import told_line  # noqa: E402 - as above
from pai_runtime.engines.profiles import Profile  # noqa: E402 - as above
from pai_runtime.runs.reader import RunReader  # noqa: E402 - as above
from tests.kubernetes import run_objects  # noqa: E402 - as above
from tests.kubernetes.api_server import ApiServer  # noqa: E402 - as above
from tests.kubernetes.jobset_model import End, JobSet  # noqa: E402 - as above

pytestmark = pytest.mark.process

_CAPACITY = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}


class KubernetesStage(Stage):
    """A stand-in server, with pods as the model of the controllers says."""

    def __init__(self, server: ApiServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = server
        self._monkeypatch = monkeypatch
        profile = {
            "engine": "kubernetes",
            "runtimeImage": "registry.example/pai:1",
            "kubeconfig": str(server.kubeconfig(folder)),
        }
        self._profile = Profile("lab", "kubernetes", parse_document(json.dumps(profile), "engines.yaml"))
        node = {"metadata": {"name": "node-1"}, "status": {"allocatable": _CAPACITY, "capacity": _CAPACITY}}
        server.put(paths.nodes(), {"apiVersion": "v1", "kind": "Node", **node})
        self._pods: dict[tuple[str, int], str] = {}
        self._attempts: dict[tuple[str, int], tuple[int, int]] = {}
        self._time = 0

    def opened(self) -> KubernetesCluster:
        return KubernetesCluster(self._profile)

    def submitted(self, reader: RunReader) -> None:
        self._monkeypatch.setattr(run_objects, "NAME", reader.named)
        self._jobsets = paths.jobsets(self._server.namespace, reader.named)
        jobset = self._server.get(self._jobsets)
        assert jobset is not None
        names = {role: str(each["name"]) for role, each in self._roles(jobset).items()}
        specs = {each["name"]: each["template"]["spec"] for each in jobset["spec"]["replicatedJobs"]}
        jobs = {role: specs[name] for role, name in names.items()}
        self._model = JobSet(jobs, jobset["spec"], names)
        self._begin()

    @staticmethod
    def _roles(jobset: dict[str, Any]) -> dict[str, Any]:
        roles: dict[str, Any] = json.loads(jobset["metadata"]["annotations"][ROLES])
        return roles

    def _begin(self) -> None:
        """Job makes the pods that are missing, and their kubelets start them."""
        for task, (restart, failures) in self._model.running.items():
            if self._attempts.get(task) != (restart, failures):
                self._attempts[task] = restart, failures
                self._put(task, run_objects.running())
                own = {"PAI_TASK_INDEX": {"source": "platform", "value": str(task[1])}}
                self._server.log(self._pods[task], "runtime-log", told_line(own))
                self._server.log(self._pods[task], "app", b"")

    def _put(self, task: tuple[str, int], status: dict[str, Any]) -> None:
        restart, failures = self._attempts[task]
        document = run_objects.pod(*task, status=status, restart=restart, failures=failures)
        self._pods[task] = str(document["metadata"]["name"])
        self._server.put(paths.pods(self._server.namespace), document)

    def write(self, task: str, text: str) -> None:
        self._server.log(self._pods[_name(task)], "app", f"{text}\n".encode())

    def end(self, task: str, code: int) -> None:
        name = _name(task)
        self._time += 1
        at = f"2026-01-02T03:05:{self._time:02}.000Z"
        self._server.log(self._pods[name], "app", b"", ended=True)
        self._put(name, run_objects.terminated(code, run_objects.record(code, at) if code else ""))
        restarts = self._model.restarts
        self._model.pod_ended(name, End(code))
        if self._model.restarts > restarts:
            self._server.change(self._jobsets, {"status": {"restarts": self._model.restarts}})
        if self._model.outcome:
            kind = "Completed" if self._model.outcome == "succeeded" else "Failed"
            status = {**run_objects.ended(kind), "restarts": self._model.restarts}
            self._server.change(self._jobsets, {"status": status})
        self._remove_all_but(name)
        self._begin()

    def stopped(self) -> None:
        self._remove_all_but(None)

    def _remove_all_but(self, last: tuple[str, int] | None) -> None:
        """Pods that were running, and are to run no longer, are deleted."""
        for task, pod in list(self._pods.items()):
            document = self._server.get(paths.pods(self._server.namespace, pod))
            is_running = document is not None and document["status"]["phase"] == "Running"
            is_wanted = last is not None and self._model.running.get(task) == self._attempts[task]
            if task != last and is_running and not is_wanted:
                self._server.remove(paths.pods(self._server.namespace, pod))


def _name(task: str) -> tuple[str, int]:
    role, _, index = task.partition("/")
    return role, int(index)


class TestKubernetesEngine(Conformance):
    @pytest.fixture
    def stage(self, server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
        return KubernetesStage(server, tmp_path, monkeypatch)
