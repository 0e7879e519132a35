"""A run as the watches of a cluster have it at each moment, with one request for each kind of object."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import label, name_of
from pai_kubernetes.api.paths import events, jobs, jobsets, pods, workloads
from pai_kubernetes.api.watch import Watch
from pai_kubernetes.labels import QUEUE
from pai_kubernetes.run.ends import end_of
from pai_kubernetes.run.pods import TaskPod, by_task, latest_pods, of_run, task_pods
from pai_kubernetes.run.queueing import job_uid_selector, kueue_version
from pai_kubernetes.run.roles import Role, read_roles
from pai_kubernetes.run.state import readable, run_of
from pai_network.fields import mapping, string
from pai_runtime.engine import Run, Unreadable
from pai_runtime.engine.records import TaskName

FIRST_LISTS: Final = 60
"""Timeout in seconds of the first lists, after which the cluster counts as unavailable."""
_MOST_EVENTS: Final = 10_000
_MOST_DIGITS: Final = 20
"""Maximum digits of a version, which is a number of 64 bits."""


class Watched:
    """The objects of a run, watched in threads until it is closed; `changed` is set whenever one changes.

    Raises `ApiError` if the JobSet or its pods cannot be watched. Without the right to read events or
    workloads it continues, and `missing` says what cannot be seen.
    """

    def __init__(self, api: Api, name: str) -> None:
        self.changed = threading.Event()
        self.missing: dict[str, ApiError] = {}
        self._api = api
        self._name = name
        self._lock = threading.Lock()
        self._jobset: Mapping[str, Any] | None = None
        self._gone_at: float | None = None
        self._settled: dict[str, dict[str, Any]] | None = None
        self._jobs: Sequence[Mapping[str, Any]] = ()
        self._roles: tuple[Role, ...] = ()
        self._by_task: dict[str, list[TaskPod]] | None = None
        self._gone: dict[TaskName, TaskPod] = {}
        self._events: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        namespace = api.namespace
        self._jobsets = Watch(
            api, jobsets(namespace), fields=f"metadata.name={name}", on_change=self._on_jobset
        )
        self._pods = Watch(api, pods(namespace), selector=of_run(name), on_change=self._on_pod)
        self._warnings = Watch(api, events(namespace), fields="type=Warning", on_change=self._on_event)
        self._workloads: Watch | None = None
        self._watches = [self._jobsets, self._pods, self._warnings]

    def start(self) -> None:
        """Start the watches, and wait until there is something to see; on failure, none is left running."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        for watch in self._watches:
            watch.start()
        end = time.monotonic() + FIRST_LISTS
        for watch in (self._jobsets, self._pods):
            watch.wait(max(0.0, end - time.monotonic()))
        self._watch_workload()

    def close(self) -> None:
        """Close the watches."""
        for watch in self._watches:
            watch.close()

    def run(self) -> Run | Unreadable:
        """Return the current state of the run."""
        self._check()
        run = self._read()
        if isinstance(run, Run) and run.over and self._settled is None:
            self._settle()
            run = self._read()
        return run

    def _read(self) -> Run | Unreadable:
        with self._lock:
            jobset, gone_at = self._jobset, self._gone_at
            gone, warned = [pod.document for pod in self._gone.values()], list(self._events.values())
        if jobset is None:
            return no_such_run(self._name, self._api)
        workload = next(iter(self._workloads.objects.values()), None) if self._workloads else None
        now = self._pods_now()
        return readable(lambda: run_of(jobset, now, warned, workload, gone, jobs=self._jobs, gone=gone_at))

    def _settle(self) -> None:
        """List all pods once more, since the watch of the JobSet may be ahead of theirs."""
        namespace = self._api.namespace
        try:
            found = self._api.list(pods(namespace), selector=of_run(self._name)).items
            self._jobs = self._api.list(jobs(namespace), selector=of_run(self._name)).items
        except ApiError:
            found = self._pods_now()  # what the watch has will do
        with self._lock:
            self._settled = {name_of(pod): pod for pod in found}
            self._by_task = None

    def _settled_changed(self, kind: str, document: Mapping[str, Any]) -> None:
        """Apply changes after the end, such as the end of a pod that still existed.

        Late events of the watch are ignored, since the list contained them.
        """
        if self._settled is None:
            return
        if kind == "SYNCED":
            self._settled = dict(self._pods.objects)
        known = self._settled.get(name_of(document))
        if known is None or _uid(known) != _uid(document) or _version(document) <= _version(known):
            return
        if kind == "DELETED":
            del self._settled[name_of(document)]
        else:
            self._settled[name_of(document)] = dict(document)

    def _pods_now(self) -> list[dict[str, Any]]:
        return list((self._pods.objects if self._settled is None else self._settled).values())

    def jobset(self) -> Mapping[str, Any]:
        """Return the JobSet as last seen; empty if there is none."""
        return self._jobset or {}

    def task_pods(self) -> Mapping[str, Sequence[TaskPod]]:
        """Return the pods of each task, including one that is gone if it was the task's last."""
        with self._lock:
            if self._by_task is None:
                self._by_task = self._read_task_pods()
            return self._by_task

    def _read_task_pods(self) -> dict[str, list[TaskPod]]:
        return by_task([*self._gone.values(), *task_pods(self._roles, self._pods_now())])

    def is_ending(self) -> bool:
        """Return whether a pod was told to end and has not ended."""
        pods = (each[-1] for each in self.task_pods().values())
        return any(
            not pod.is_gone
            and string(pod.document, "metadata", "deletionTimestamp")
            and not end_of(pod.document)
            for pod in pods
        )

    def is_away(self) -> bool:
        """Return whether the cluster does not answer at present."""
        return any(watch.trouble is not None for watch in (self._jobsets, self._pods))

    def _check(self) -> None:
        for watch in (self._jobsets, self._pods):
            if watch.error is not None:
                raise watch.error

    def _watch_workload(self) -> None:
        jobset = self.jobset()
        if not label(jobset, QUEUE):
            return
        try:
            path = workloads(self._api.namespace, kueue_version(self._api))
        except ApiError as error:
            self.missing["workloads"] = error
            return
        selector = job_uid_selector(jobset)
        self._workloads = Watch(self._api, path, selector=selector, on_change=self._on_workload)
        self._watches.append(self._workloads)
        self._workloads.start()

    def _on_jobset(self, kind: str, document: Mapping[str, Any]) -> None:
        with self._lock:
            seen = self._jobset
            current = self._jobsets.objects.get(self._name)
            if seen is not None and (current is None or _uid(current) != _uid(seen)):
                self._gone_at = self._gone_at or time.time()  # another one of its name would be another run
                self._jobset = document if kind == "DELETED" and _uid(document) == _uid(seen) else seen
            elif current is not None:
                self._jobset = current
            self._read_roles()
        self.changed.set()

    def _read_roles(self) -> None:
        try:
            roles = read_roles(self.jobset())
        except ValueError:
            roles = ()
        if roles != self._roles:
            self._roles, self._by_task = roles, None

    def _on_pod(self, kind: str, document: Mapping[str, Any]) -> None:
        with self._lock:
            self._settled_changed(kind, document)
            if kind == "SYNCED" or self._settled is not None:  # then an event may be older than what is known
                self._by_task = None
            for pod in task_pods(self._roles, [document], gone=kind == "DELETED"):
                self._take(pod)
        self.changed.set()

    def _take(self, pod: TaskPod) -> None:
        """Add one pod, since reading all of them at each change would be quadratic.

        Of pods that are gone only the last one of each task is kept.
        """
        gone = [each for each in (self._gone.get(pod.task), pod) if each and each.is_gone]
        self._gone |= latest_pods(gone)
        if self._by_task is not None:
            known = self._by_task.get(f"{pod.task[0]}/{pod.task[1]}", ())
            others = [each for each in known if each.name != pod.name and not each.is_gone]
            now = [] if pod.is_gone else [pod]
            self._by_task |= by_task([*latest_pods(gone).values(), *others, *now])

    def _on_event(self, kind: str, document: Mapping[str, Any]) -> None:
        if kind == "FAILED" and self._warnings.error is not None:
            self.missing["events"] = self._warnings.error
        found = list(self._warnings.objects.values()) if kind == "SYNCED" else [document]
        for event in found if kind != "DELETED" else ():
            about = mapping(event, "involvedObject")
            name = string(about, "name")
            if name == self._name or name.startswith(f"{self._name}-"):
                with self._lock:
                    self._events[string(about, "kind"), name, string(event, "reason")] = event
                    while len(self._events) > _MOST_EVENTS:
                        del self._events[next(iter(self._events))]
        self.changed.set()

    def _on_workload(self, kind: str, _document: Mapping[str, Any]) -> None:
        if kind == "FAILED" and self._workloads and self._workloads.error is not None:
            self.missing["workloads"] = self._workloads.error
        self.changed.set()


def no_such_run(name: str, api: Api) -> Unreadable:
    """Return the error that there is no run of this name."""
    return Unreadable(f"there is no run {name} in namespace {api.namespace} of {api.label}", is_missing=True)


def _uid(document: Mapping[str, Any]) -> str:
    return string(document, "metadata", "uid")


def _version(document: Mapping[str, Any]) -> int:
    """Return a number by which the later of two states of an object is the greater."""
    text = string(document, "metadata", "resourceVersion")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
