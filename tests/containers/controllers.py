"""A cluster of one node behind a stand-in API server: what JobSet, Job, scheduler and kubelet do with runs.

What JobSet and Job decide, `tests.kubernetes.jobset_model` decides; this does it: it makes pods, ends them,
and says how all of it is. Not had here: the pause before a pod is replaced.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pai_kubernetes.api import paths
from tests.containers.cluster import guard, labels_of_job, pod_of
from tests.containers.kubelet import Pod
from tests.containers.names import NAMESPACE, Network
from tests.containers.pod_status import SCHEDULED, first_failure, pending_status, pod_status, rfc3339
from tests.containers.volumes import Available, Image, Object
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.jobset_model import End, JobSet

CPU = 8
"""What the node has left for a pod."""
QUOTA = "512Mi"
NODE = "node-1"

_LOOK_EVERY = 0.05
_GRACE = 60
_DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
Task = tuple[str, int]


@contextmanager
def played_controllers(
    server: ApiServer, folder: Path, images: Mapping[str, Image]
) -> Iterator["Controllers"]:
    """Play them until the end of the context, after which nothing is left; raises their error there."""
    with ExitStack() as closing:
        closing.callback(guard(folder).communicate)
        threads = closing.enter_context(ThreadPoolExecutor(128))
        played = Controllers(server, folder, images, threads)
        closing.callback(played.end)
        yield played


@dataclass
class _TaskPod:
    """A pod of a task: as it was made, and as it runs."""

    task: Task
    attempt: tuple[int, int]
    document: dict[str, Any]
    pod: Pod | None = None
    is_told_to_end: bool = False
    is_evicted: bool = False
    is_deleted: bool = False
    is_over: bool = False
    shown: Counter[str] = field(default_factory=Counter)
    shown_ended: dict[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])


class Controllers:
    """All of it is done in one thread, over and over, from what the server has."""

    def __init__(
        self, server: ApiServer, folder: Path, images: Mapping[str, Image], threads: Executor
    ) -> None:
        assert server.namespace == NAMESPACE
        self.server, self.folder, self.images, self.threads = server, folder, images, threads
        self._runs: dict[str, _Run] = {}
        self._evicted: set[str] = set()
        self._deleted: set[str] = set()
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        node = {"allocatable": capacity, "capacity": capacity}
        server.put(
            paths.nodes(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": node}
        )
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def evict(self, pod: str) -> None:
        """As ``kubectl drain`` does it."""
        self._evicted.add(pod)

    def delete(self, pod: str) -> None:
        """As ``kubectl delete pod`` does it."""
        self._deleted.add(pod)

    def program(self, pod: str, container: str, argv: Sequence[str], terminal: bool) -> list[str]:  # noqa: FBT001 - as the server calls it
        """The command line that runs another one in a container, as its runtime does it."""
        found = next(each for run in self._runs.values() for each in run.pods if each.name == pod)
        assert found.pod
        return found.pod.running(container).exec_argv(*argv, terminal=terminal)

    def end(self) -> None:
        """End all pods."""
        self._is_over.set()
        self._thread.join(60)
        if self._error:
            raise self._error

    def _play(self) -> None:
        # The network and the pods' own end with this thread.
        try:
            self.network = Network(self.folder / "network")
            while not self._is_over.is_set():
                self._look()
                with self.server.changed:
                    self.server.changed.wait(_LOOK_EVERY)
        except BaseException as error:  # noqa: BLE001 - raised in `end`
            self._error = error
        finally:
            for run in self._runs.values():
                run.close()
            self.network.close()

    def _look(self) -> None:
        jobsets = {each["metadata"]["uid"]: each for each in self.server.list(paths.jobsets(NAMESPACE))}
        for uid, jobset in jobsets.items():
            if uid not in self._runs:
                self._runs[uid] = _Run(self, jobset)
        for uid, run in self._runs.items():
            for pod in run.pods:
                if pod.name in self._evicted and not pod.is_evicted:
                    run.evict(pod)
                if pod.name in self._deleted and not pod.is_deleted:
                    run.delete(pod)
            run.look(jobsets.get(uid))


class _Run:
    """A JobSet with its Jobs and pods."""

    def __init__(self, cluster: Controllers, jobset: Object) -> None:
        self.pods: list[_TaskPod] = []
        self._cluster, self._server = cluster, cluster.server
        self._name = jobset["metadata"]["name"]
        assert jobset["spec"]["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
        self._replicated = {each["name"]: each for each in jobset["spec"]["replicatedJobs"]}
        specs = {name: each["template"]["spec"] for name, each in self._replicated.items()}
        self._model = JobSet(specs, jobset["spec"], {name: name for name in specs})
        self._jobset = jobset
        self._ignored: Counter[Task] = Counter()
        self._removed: set[str] = set()
        self._said: dict[str, Any] = {}

    def look(self, jobset: Object | None) -> None:
        """Do what is to be done now; None: the JobSet was deleted."""
        for pod in list(self.pods):
            self._look_at(pod)
        if jobset is None:
            for pod in self.pods:
                self._tell_to_end(pod)
            return
        is_suspended = jobset["spec"].get("suspend") is True
        for pod in self.pods:
            if is_suspended or self._model.running.get(pod.task) != pod.attempt:
                self._tell_to_end(pod)
        if not is_suspended:
            self._make_pods()
        if self._model.outcome:
            for name, job in self._model.jobs.items():
                if job.condition is None and not any(
                    pod.task[0] == name and not pod.is_over for pod in self.pods
                ):
                    self._remove_job(name)
        self._say(is_suspended=is_suspended)

    def evict(self, pod: _TaskPod) -> None:
        """The Eviction API deletes it, and says so."""
        pod.is_evicted = True
        self._change(pod, status={"conditions": [SCHEDULED, _DISRUPTED]})
        self._tell_to_end(pod)

    def delete(self, pod: _TaskPod) -> None:
        """Somebody deletes it."""
        pod.is_deleted = True
        self._tell_to_end(pod)

    def close(self) -> None:
        for pod in self.pods:
            if pod.pod and not pod.is_over:
                pod.pod.close()

    # Of the pods, as the kubelet has them.

    def _look_at(self, pod: _TaskPod) -> None:
        if pod.is_over:
            return
        if pod.pod is None:
            self._start(pod)
        if pod.pod is None:
            if pod.is_told_to_end:
                self._ended(pod)
            return
        is_over = pod.pod.is_over()
        # There is a log of what the status calls started, and all of it if that says ended.
        status = pod_status(pod.pod)
        self._show_logs(pod, pod.pod)
        if pod.is_evicted:
            status["conditions"] = [SCHEDULED, _DISRUPTED]
        self._change(pod, status=status)
        if is_over:
            self._cluster.network.retract(pod.pod.sandbox)
            pod.pod.close()
            self._ended(pod)

    def _start(self, pod: _TaskPod) -> None:
        spec = pod.document["spec"]
        if pod.is_told_to_end or self._server.get(self._path(pod)) is None:
            return
        wanted = max(float(each["resources"]["requests"]["cpu"]) for each in spec["containers"])
        if wanted > CPU:
            why = "0/1 nodes are available: 1 Insufficient cpu."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
            self._change(pod, status={"phase": "Pending", "conditions": [condition]})
            return
        self._change(pod, spec={"nodeName": NODE})
        containers = [*spec.get("initContainers", ()), *spec["containers"]]
        for image in (each["image"] for each in containers if each["image"] not in self._cluster.images):
            message = f'Back-off pulling image "{image}": ErrImagePull: {image}: manifest unknown'
            self._change(pod, status=pending_status(pod.document, "ImagePullBackOff", message))
            return
        objects = self._mounted(spec)
        if objects is None:
            self._change(pod, status=pending_status(pod.document, "PodInitializing"))
            return
        available = Available(objects, self._cluster.images, {})
        pod.pod = Pod(pod.document, self._cluster.folder / pod.name, self._cluster.network, available)
        self._cluster.network.publish(pod.pod.sandbox)
        pod.pod.start(self._cluster.threads)

    def _mounted(self, spec: Object) -> dict[tuple[str, str], Object] | None:
        """The ConfigMaps and Secrets that it mounts; None as long as there is one that is not there."""
        found: dict[tuple[str, str], Object] = {}
        for volume in spec.get("volumes", ()):
            if "configMap" in volume:
                kind, path = "ConfigMap", paths.config_maps(NAMESPACE, volume["configMap"]["name"])
            elif "secret" in volume:
                kind, path = "Secret", paths.secrets(NAMESPACE, volume["secret"]["secretName"])
            else:
                continue
            document = self._server.get(path)
            if document is None:
                return None
            found[kind, document["metadata"]["name"]] = {**document, "kind": kind}
        return found

    def _show_logs(self, pod: _TaskPod, running: Pod) -> None:
        for name in list(running.started):
            is_ended = name in running.codes
            data = running.written(name, pod.shown[name])
            pod.shown[name] += len(data)
            if data or name not in pod.shown_ended or (is_ended and not pod.shown_ended[name]):
                self._server.log(pod.name, name, data, ended=is_ended)
                pod.shown_ended[name] = is_ended

    def _tell_to_end(self, pod: _TaskPod) -> None:
        """Its deletion is asked for."""
        if pod.is_told_to_end or (pod.is_over and not pod.is_evicted):
            return
        pod.is_told_to_end = True
        deletion = {
            "deletionTimestamp": rfc3339(time.time() + _GRACE),
            "deletionGracePeriodSeconds": _GRACE,
        }
        self._change(pod, metadata=deletion)
        if pod.pod:
            self._cluster.threads.submit(pod.pod.stop)

    def _ended(self, pod: _TaskPod) -> None:
        """Let Job take notice of its end, and have it deleted if that was asked for."""
        pod.is_over = True
        wanted = self._model.running.get(pod.task) == pod.attempt
        if wanted and pod.pod and (pod.is_evicted or pod.is_deleted or not pod.is_told_to_end):
            code, container = first_failure(pod.pod)
            self._model.pod_ended(pod.task, End(code, container, pod.is_evicted))
            if self._model.running.get(pod.task) == pod.attempt:
                self._ignored[pod.task] += 1
        if pod.is_told_to_end:
            self._remove(pod)

    # Of the pods and Jobs, as their controllers have them.

    def _make_pods(self) -> None:
        live = {pod.task for pod in self.pods if not pod.is_over and not pod.is_told_to_end}
        before = [pod for pod in self.pods if pod.attempt[0] < self._model.restarts]
        if before:
            if all(pod.is_over for pod in before):
                for name in self._replicated:
                    self._remove_job(name)
            return
        for task, (restarts, failures) in self._model.running.items():
            self._make_job(task[0])
            if task in live or any(pod.task == task and not pod.is_over for pod in self.pods):
                continue
            made = pod_of(
                self._jobset, self._replicated[task[0]], task[1], restarts, failures, self._ignored[task]
            )
            if self._is_beyond_quota(task[0], made):
                continue
            job = self._server.get(self._job_path(task[0]))
            assert job
            made["metadata"]["ownerReferences"] = [_owner(job)]
            self.pods.append(_TaskPod(task, (restarts, failures), made))
            self._server.put(
                paths.pods(NAMESPACE),
                {"apiVersion": "v1", "kind": "Pod", **made, "status": {"phase": "Pending"}},
            )

    def _is_beyond_quota(self, role: str, pod: Object) -> bool:
        asked = pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
        if int(asked.removesuffix("Mi")) <= int(QUOTA.removesuffix("Mi")):
            return False
        job = f"{self._name}-{role}-0"
        message = (
            f'Error creating: pods "{job}-0-" is forbidden: exceeded quota: team,'
            f" requested: limits.memory={asked}, limited: limits.memory={QUOTA}"
        )
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{job}.quota"},
            "involvedObject": {"kind": "Job", "name": job},
            "type": "Warning",
            "reason": "FailedCreate",
            "message": message,
            "lastTimestamp": rfc3339(time.time()),
        }
        path = paths.events(NAMESPACE)
        if not self._server.get(f"{path}/{job}.quota"):
            self._server.put(path, event)
        return True

    def _make_job(self, role: str) -> None:
        if self._server.get(self._job_path(role)) is None:
            labels = labels_of_job(self._jobset, role, self._model.restarts)
            metadata = {
                "name": f"{self._name}-{role}-0",
                "labels": {**self._replicated[role]["template"]["metadata"]["labels"], **labels},
                "ownerReferences": [_owner(self._jobset)],
            }
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": {}}
            self._server.put(paths.jobs(NAMESPACE), job)

    def _remove_job(self, role: str) -> None:
        """Delete a Job, with what it owns."""
        if self._server.get(self._job_path(role)):
            self._server.remove(self._job_path(role))
            self._said.pop(self._job_path(role), None)
        self.pods = [pod for pod in self.pods if pod.task[0] != role or not pod.is_over]

    def _remove(self, pod: _TaskPod) -> None:
        if self._server.get(self._path(pod)):
            self._server.remove(self._path(pod))
        self.pods.remove(pod)

    def _say(self, *, is_suspended: bool) -> None:
        """Write what JobSet and Job say of it, if that is new."""
        of_roles = []
        for name, job in self._model.jobs.items():
            active = [pod for pod in self.pods if pod.task[0] == name and not pod.is_over]
            ready = [pod for pod in active if pod.pod and "app" in pod.pod.started]
            status = {
                "active": sum(not pod.is_told_to_end for pod in active),
                "terminating": sum(pod.is_told_to_end for pod in active),
                "ready": len(ready),
                "completedIndexes": ",".join(map(str, sorted(job.succeeded))),
                "failedIndexes": ",".join(map(str, sorted(job.failed))),
                "succeeded": len(job.succeeded),
                # One that failed by a rule for pods is no index that has failed.
                "failed": len(job.failed)
                + (job.condition is not None and job.condition[1] == "PodFailurePolicy"),
            }
            if job.condition:
                kind, reason, message = job.condition
                status["conditions"] = [
                    {"type": kind, "status": "True", "reason": reason, "message": message}
                ]
            if self._server.get(self._job_path(name)):
                self._say_of(self._job_path(name), status)
            ended = job.condition[0] if job.condition else ""
            of_roles.append(
                {
                    "name": name,
                    "active": int(not ended),
                    "ready": int(len(ready) == self._replicated[name]["template"]["spec"]["completions"]),
                    "succeeded": int(ended == "Complete"),
                    "failed": int(ended == "Failed"),
                    "suspended": int(is_suspended),
                }
            )
        self._say_of(
            paths.jobsets(NAMESPACE, self._name),
            {
                "restarts": self._model.restarts,
                "restartsCountTowardsMax": self._model.counted,
                "replicatedJobsStatus": of_roles,
                **self._conditions(),
            },
        )

    def _conditions(self) -> dict[str, Any]:
        """How the JobSet has ended, since it was first asked."""
        if not self._model.outcome:
            return {}
        kind, message = {
            "succeeded": ("Completed", "jobset completed successfully"),
            "failed": ("Failed", "jobset failed due to one or more job failures"),
        }[self._model.outcome]
        before = self._said.get(paths.jobsets(NAMESPACE, self._name), {})
        since = {"status": "True", "lastTransitionTime": rfc3339(time.time())}
        return {"conditions": before.get("conditions") or [{"type": kind, "message": message, **since}]}

    def _say_of(self, path: str, status: dict[str, Any]) -> None:
        if self._said.get(path) != status and self._server.get(path):
            self._said[path] = status
            self._server.change(path, {"status": status})

    def _change(self, pod: _TaskPod, **changes: dict[str, Any]) -> None:
        """Write what is new of a pod, if the server still has it."""
        path = self._path(pod)
        stored = self._server.get(path)
        if stored and any(
            {**stored.get(part, {}), **new} != stored.get(part) for part, new in changes.items()
        ):
            self._server.change(path, changes)

    def _path(self, pod: _TaskPod) -> str:
        return paths.pods(NAMESPACE, pod.name)

    def _job_path(self, role: str) -> str:
        return paths.jobs(NAMESPACE, f"{self._name}-{role}-0")


def _owner(document: Object) -> dict[str, Any]:
    """A reference to it, as a controller makes one."""
    metadata = document["metadata"]
    named = {"kind": document["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": document["apiVersion"], **named, "controller": True, "blockOwnerDeletion": True}
