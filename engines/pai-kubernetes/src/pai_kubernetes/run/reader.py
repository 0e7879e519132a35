"""A run on a cluster, as commands read it and act on it."""

import errno
import math
import shlex
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import annotation, label, moment, shown
from pai_kubernetes.api.paths import config_maps, events, jobs, jobsets, pods
from pai_kubernetes.api.pod_logs import NO_LOG, read_log
from pai_kubernetes.api.times import as_text
from pai_kubernetes.labels import APP, CANCELLED, HOLD, INIT, RUN, RUNTIME_LOG
from pai_kubernetes.names import code_user, job_config_name
from pai_kubernetes.profile import MountedStorage
from pai_kubernetes.run.copying import container_files, container_services
from pai_kubernetes.run.ends import end_of
from pai_kubernetes.run.entering import enter
from pai_kubernetes.run.forwarding import forwarded
from pai_kubernetes.run.keeping import Keeper
from pai_kubernetes.run.logs import Logs
from pai_kubernetes.run.output import RunOutput, with_place
from pai_kubernetes.run.pods import (
    TaskPod,
    addresses,
    by_task,
    container_status,
    has_started,
    of_run,
    task_pods,
)
from pai_kubernetes.run.provenance import images, read_provenance
from pai_kubernetes.run.queueing import deactivate, find_workload
from pai_kubernetes.run.roles import read_roles
from pai_kubernetes.run.sayings import Sayings
from pai_kubernetes.run.state import readable, run_of
from pai_kubernetes.run.watched import Watched, no_such_run
from pai_network.fields import mapping, string
from pai_pod.engine import JOB_FILE, kept_output, told_variables, with_given_peers
from pai_runtime.engine import (
    CannotCopy,
    CannotEnter,
    CannotRemove,
    LogReader,
    Progress,
    Run,
    RunReader,
    RunTask,
    TaskFile,
    TaskVariables,
    Unreadable,
)
from pai_runtime.engine.code import release_code
from pai_runtime.engine.documents import split_url
from pai_runtime.engine.keeping import Kept, Seen, kept_at
from pai_runtime.engine.records import LogName

_GONE: Final = "its pod is gone; this is what was read of it while the run was followed"
_LINES: Final = 200
"""Number of last lines of a sidecar's log, among which it prints the variables."""
_MOST_BYTES: Final = 1 << 20
_REST_OF_PODS: Final = 2.0
"""Seconds to wait for the nodes to say how containers ended, once the run is over and its logs are read."""


class Reader(RunReader):
    """The run `named`.

    What is read of the run while it is followed is kept on this machine, for when the cluster no longer has
    it: in the empty directory `keep`, or in one of the engine's. Of what is not, `output` says where its pods
    have left theirs; `code` is the storage that may have its code. `provenance` is what a list says of what
    produced it.

    The first request asks the cluster; further ones use watches, so that polling each second does not ask it
    again.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        profile_name: str,
        *,
        keep: Path | None = None,
        output: MountedStorage | None = None,
        code: MountedStorage | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.named = name
        self.on = profile_name
        self._api = api
        self._was_asked = False
        self._watched: Watched | None = None
        self._pods: Mapping[str, Sequence[TaskPod]] = {}
        self._logs = Logs(api, self._task_pods)
        self._sayings = Sayings(api, self._task_pods)
        self._may_hold = False
        self._uid = ""
        self._provenance = provenance
        place = kept_at(profile_name, name)
        self._kept = Kept(place) if place is not None else None
        self._seen: Seen | None = None
        self._keep = keep
        self._output = output
        self._code = code
        self._keeper: Keeper | None = None
        self._followed: Run | None = None
        self._say: Callable[[str], None] = lambda _text: None
        self._told: set[str] = set()
        self._settled_at = math.inf

    def run(self) -> Run | Unreadable:
        """Return the current state of the run. Raises `ClusterError`."""
        if self._watched is None and self._was_asked:
            self._watch()
        self._was_asked = True
        watched = self._watched
        run = watched.run() if watched is not None else self._ask()
        if self._keeper is None:
            run = self._with_kept(run)
        if isinstance(run, Unreadable):
            return with_place(run, self._output, self.named)
        if self._keeper is not None and watched is not None:
            self._followed = run
            self._keeper.look(run, string(watched.jobset(), "metadata", "uid"))
        run = self._with_output(run)
        may_hold = bool(annotation(watched.jobset(), HOLD)) if watched is not None else self._may_hold
        return self._sayings.noted(run, may_hold=may_hold, wait=watched is None)

    def follow(self, say: Callable[[str], None]) -> None:
        """Begin to watch the run, and to keep what is read of it. Raises `ClusterError`."""
        self._say = say
        if self._watched is None:
            self._watch()
        self._begin_to_keep()

    def wait(self, seconds: float) -> None:
        """Wait until an object of the run changes, at most `seconds`; say what cannot be seen of it."""
        watched = self._watched
        if watched is None:
            super().wait(seconds)
            return
        watched.changed.wait(seconds)
        watched.changed.clear()
        for what, error in list(watched.missing.items()):
            self._say_once(f"cannot see the {what} of this run: {error}")
        if left_out := len(self._logs.at_once.left_out):
            logs = shlex.join(["pai-runtime", "logs", self.named, "TASK", "-f", "--on", self.on])
            self._say_once(f"the output of {left_out} more tasks is not shown here; to follow one: {logs}")

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._say(text)

    def news(self, before: Run, now: Run) -> Iterable[str]:
        """Return a line for each restart; why a task failed is read of its pod if no look saw it fail."""
        attempts = {task.name: task.retries for task in now.tasks}
        tasks = (
            self._as_ended(task) if attempts.get(task.name, 0) > task.retries else task
            for task in before.tasks
        )
        return super().news(replace(before, tasks=tuple(tasks)), now)

    def _as_ended(self, task: RunTask) -> RunTask:
        """Return a task as its last pod failed; as it is if that is unknown, or the pod was only stopped."""
        pods = self._task_pods().get(task.name, ())
        end = next((end_of(pod.document) for pod in pods if pod.attempt == task.retries), None)
        if task.state == "failed" or task.note or not end or not end.failed:
            return task
        if end.stopped and not end.disrupted:
            return task
        return replace(task, state="failed", exit_code=end.code, ended=end.ended, note=end.removal)

    def is_away(self) -> bool:
        """Return whether the watches get no answer at present."""
        return self._watched is not None and self._watched.is_away()

    def is_settled(self) -> bool:
        """Return whether all logs were read, and it is known how containers ended, or has been waited for."""
        if self._logs.is_more_to_come():
            return False
        if self._watched is None or not self._watched.is_ending():
            return True
        self._settled_at = min(self._settled_at, time.monotonic() + _REST_OF_PODS)
        return time.monotonic() >= self._settled_at

    def _begin_to_keep(self) -> None:
        if self._kept is None:
            return
        try:
            self._kept.begin(self._keep)
        except OSError as error:
            self._say(f"what the tasks write is not kept: {error.filename}: {error.strerror}")
            return
        self._keeper = Keeper(self._kept, self._api, self._pod, self.exit_record, self._say)
        self._logs.on_read = self._keeper.output

    def _with_kept(self, run: Run | Unreadable) -> Run | Unreadable:
        """Complete the run with what is kept of tasks whose pods are gone, or of all of it if it is gone."""
        seen = self._kept.seen() if self._kept is not None else None
        if seen is None or (isinstance(run, Run) and seen.uid != self._uid):
            return run
        if isinstance(run, Unreadable):
            if self._uid or not seen.run.over:  # a JobSet that is no run
                return run
            run = replace(seen.run, tasks=())
        self._seen = seen
        now = {task.name: task for task in run.tasks}
        tasks = [_newer(now.get(task.name), task, self._pod(task)) for task in seen.run.tasks]
        failed = seen.run.failed_task if seen.run.over else None
        return replace(run, tasks=tuple(tasks), failed_task=failed or run.failed_task)

    def _run_output(self) -> RunOutput | None:
        uid = string(self._watched.jobset(), "metadata", "uid") if self._watched is not None else self._uid
        return RunOutput(self._output, self.named, uid) if self._output is not None and uid else None

    def _with_output(self, run: Run) -> Run:
        """Note of the tasks whose pods are gone, and of which little is kept here, where their output is."""
        output = self._run_output()
        if output is None or self._watched is not None:  # who watches the run reads what pods leave in time
            return run
        tasks = [
            output.noted(task)
            if task.over and not self._logs.pods_of(task.name, None) and not self._is_kept(task)
            else task
            for task in run.tasks
        ]
        return replace(run, tasks=tuple(tasks))

    def _is_kept(self, task: RunTask) -> bool:
        """Return whether a task was followed from here to its end."""
        return self._seen is not None and any(
            each.name == task.name and each.over for each in self._seen.run.tasks
        )

    def _stored(self, task: RunTask, attempt: int | None = None) -> kept_output.StoredAttempt | None:
        """Return what is on a storage of an attempt that is over; None if that cannot be read here."""
        output = self._run_output()
        if output is None or not (task.over or (attempt is not None and attempt < task.retries)):
            return None
        return output.attempt(task, attempt)

    def close(self) -> None:
        """End all watches and streams, and the keeping of a run that was followed."""
        if self._keeper is not None and self._followed is not None and self._watched is not None:
            self._keeper.end(self._followed, string(self._watched.jobset(), "metadata", "uid"))
        self._keeper = None
        if self._watched is not None:
            self._watched.close()
        self._logs.close()

    def progress(self, task: RunTask) -> Progress | None:
        """Return the progress of a task by the state of its pod: in its init container, or in its command."""
        pod = self._pod(task)
        if pod is None or task.over:
            return None
        if kept := self._sayings.progress(task):
            return kept
        for container, phase in ((APP, "command"), (INIT, "init")):
            since = moment(container_status(pod.document, container), "running", "startedAt")
            if since is not None:
                return Progress(phase, None, since)  # type: ignore[arg-type] # one of the phases
        return None

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record of a task from the termination message of its last pod, or a substitute.

        Without a pod, it is what was kept of it.
        """
        pod = self._pod(task)
        if pod is None:
            kept = self._kept.record(task.name) if self._kept is not None and self._seen is not None else {}
            stored = self._stored(task) if not kept else None
            return stored.record() if stored is not None else kept
        end = end_of(pod.document)
        return end.record if end is not None else {}

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """Return a log from the node of the task's pod; if the pods are gone, from what is kept of it."""
        if self._logs.pods_of(task.name, attempt):
            return self._logs.log(task, log, attempt)
        kept = (
            self._kept.log(task, log, attempt) if self._kept is not None and self._seen is not None else None
        )
        stored = None if kept and self._is_kept(task) else self._stored(task, attempt)
        return (stored.log(log) if stored is not None else None) or kept or self._logs.log(task, log, attempt)

    def variables(self, task: RunTask) -> TaskVariables:
        """Return the variables that the sidecar prints, with peers'.

        Raises OSError, ValueError, `ClusterError`.
        """
        pod = self._pod(task)
        if pod is None and self._kept and self._seen and (kept := self._kept.variables(task.name)):
            return TaskVariables(kept, f"the variables of {task.name} about its peers are not kept")
        stored = self._stored(task) if pod is None else None
        if stored is not None and (kept := stored.variables()):
            return TaskVariables(kept, f"the variables of {task.name} about its peers are not kept")
        if pod is None or pod.is_gone or not has_started(pod.document, RUNTIME_LOG):
            raise OSError(errno.ENODATA, "its pod does not tell them (yet, or any more)")
        try:
            log = read_log(self._api, pod.name, RUNTIME_LOG, lines=_LINES, most=_MOST_BYTES)
            told = told_variables.read_told(log)
        except ApiError as error:
            if error.status not in NO_LOG:
                raise
            told = {}
        if not told:
            raise OSError(errno.ENODATA, "its runtime has not told them yet")
        known = addresses(chain(*self._task_pods().values()))
        try:
            return TaskVariables(with_given_peers(told, self._given(), known))
        except ApiError as error:
            why = str(error)
        except ValueError:
            where = f"{self._api.label}: the job in the ConfigMap {job_config_name(self.named)}"
            why = f"{where} cannot be read; it may be in the Secret of the run"
        return TaskVariables(told, f"the variables of {task.name} about its peers are not known: {why}")

    def provenance(self, *, whole: bool = True) -> Mapping[str, Any]:
        """Return what produced the run, by its JobSet, ConfigMap and pods. Raises `ClusterError`."""
        if self._watched is not None:
            self._provenance = read_provenance(self._watched.jobset())
        elif self._provenance is None or (whole and not self._was_asked):
            self._ask()
        found = self._provenance or {}
        if not found or not whole:
            return found
        job = mapping(found, "job")
        if "text" not in job:  # which would say that it is not to be kept
            job = {**job, "text": self._given().get(JOB_FILE)}
        return {**found, "job": job, "images": images(chain(*self._task_pods().values()))}

    def _given(self) -> Mapping[str, str]:
        """Return the files that the pods were given, except for those with secrets. Raises `ApiError`."""
        name = job_config_name(self.named)
        data = mapping(self._api.get(config_maps(self._api.namespace, name)), "data")
        return {key: value for key, value in data.items() if isinstance(value, str)}

    def cancel(self) -> str:
        """Suspend the run for good, and return advice if Kueue might resume it."""
        path = jobsets(self._api.namespace, self.named)
        now = as_text(time.time())
        patch = {"metadata": {"annotations": {CANCELLED: now}}, "spec": {"suspend": True}}
        if deactivate(self._api, self._api.patch(path, patch)):
            return ""
        return "Kueue has no Workload of it yet; run this again if it starts nonetheless"

    def remove(self) -> int | None:
        """Delete the JobSet, all that it owns, and code that no other run uses. Raises `CannotRemove`."""
        run = self._ask()
        if isinstance(run, Run) and run.stopping:
            raise CannotRemove("it is being stopped; remove it once its tasks have ended")
        if isinstance(run, Run) and not run.over:
            command = shlex.join(["pai-runtime", "stop", self.named, "--on", self.on])
            raise CannotRemove(f"it is running; stop it first: {command}")
        try:
            path = jobsets(self._api.namespace, self.named)
            if isinstance(run, Unreadable) and label(self._api.get(path), RUN) != self.named:
                raise CannotRemove("it is a JobSet that pai-runtime has not made; use kubectl")
            self._api.delete(path, options={"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND or self._kept is None or self._kept.seen() is None:
                raise CannotRemove(str(error)) from None
        if self._kept is not None:
            self._kept.remove()
        self.release_code()
        return None

    def release_code(self) -> None:
        """Remove the run's code from its storage, unless another run uses it or this machine has it not."""
        if self._code is not None:
            release_code(self._code.mounted_at, code_user(self._api.namespace, self.named))

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Run a program in the task's container by its supervisor, and return its exit status.

        Raises `CannotEnter`.
        """
        return enter(self._api, self._running_pod(task), argv)

    def files(self, task: RunTask, path: str) -> Iterator[TaskFile]:
        """Yield a file or directory of the task's container. Raises `CannotCopy`."""
        try:
            pod = self._running_pod(task)
        except CannotEnter as error:
            raise CannotCopy(str(error)) from None
        yield from container_files(self._api, pod, path)

    def services(self, task: RunTask) -> Mapping[str, str]:
        """Return the addresses of the task's services from its ``state.json``. Raises `ClusterError`."""
        try:
            pod = self._running_pod(task)
        except CannotEnter:
            return {}
        return container_services(self._api, pod)

    @contextmanager
    def connected(self, task: RunTask, address: str) -> Generator[str, None, None]:
        """Yield the URL of a port of this machine that leads to a service. Raises `CannotEnter`."""
        url = split_url(address)
        if url is None or url.username is not None:
            raise CannotEnter(f"expected an http URL, found {shown(address)}")
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        try:
            with forwarded(self._api, self._running_pod(task), port, self._say) as here:
                yield url._replace(netloc=f"127.0.0.1:{here}").geturl()
        except ApiError as error:
            raise CannotEnter(str(error)) from None

    def _running_pod(self, task: RunTask) -> str:
        """Return the name of the pod in which a task runs. Raises `CannotEnter`."""
        pod = self._pod(task)
        if pod is None:
            raise CannotEnter(f"there is no pod of {task.name}")
        if pod.is_gone or "running" not in container_status(pod.document, APP):
            has_ended = pod.is_gone or end_of(pod.document) is not None
            raise CannotEnter(
                f"the container of {task.name} {'has ended' if has_ended else 'does not run yet'}"
            )
        return pod.name

    def _ask(self) -> Run | Unreadable:
        self._uid = ""
        try:
            jobset = self._api.get(jobsets(self._api.namespace, self.named))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.reason == "NotFound":
                return no_such_run(self.named, self._api)
            raise
        self._uid = string(jobset, "metadata", "uid")
        self._provenance = read_provenance(jobset)
        return readable(lambda: self._read(jobset))

    def _read(self, jobset: Mapping[str, Any]) -> Run:
        """Return the run of a JobSet, with no more requests than its state needs. Raises `ValueError`."""
        namespace, self._may_hold = self._api.namespace, bool(annotation(jobset, HOLD))
        found = self._api.list(pods(namespace), selector=of_run(self.named)).items
        self._pods = by_task(task_pods(read_roles(jobset), found))
        run = run_of(jobset, found)
        if run.over and any(task.state == "stopped" for task in run.tasks):
            ended = self._api.list(jobs(namespace), selector=of_run(self.named)).items
            return run_of(jobset, found, jobs=ended)
        if not run.over and any(task.state == "waiting" for task in run.tasks):
            return run_of(jobset, found, self._events(), self._workload(jobset))
        return run

    def _events(self) -> Sequence[Mapping[str, Any]]:
        """Return the warnings, if they may be read."""
        try:
            return self._api.list(events(self._api.namespace), fields="type=Warning").items
        except ApiError:
            return ()

    def _workload(self, jobset: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return find_workload(self._api, jobset)
        except ApiError:
            return None

    def _watch(self) -> Watched:
        watched = Watched(self._api, self.named)
        watched.start()
        self._watched = watched
        self._logs.is_live = True
        return watched

    def _task_pods(self) -> Mapping[str, Sequence[TaskPod]]:
        return self._watched.task_pods() if self._watched is not None else self._pods

    def _pod(self, task: RunTask) -> TaskPod | None:
        """Return the last pod of a task; None if there is none."""
        return next(reversed(self._task_pods().get(task.name, ())), None)


def _newer(now: RunTask | None, kept: RunTask, pod: TaskPod | None) -> RunTask:
    """Return a task as the cluster has it, or as it was seen before its pod was removed."""
    if now is not None and (pod is not None or not now.over or not kept.over or kept.retries < now.retries):
        return now
    return replace(kept, note=_GONE)
