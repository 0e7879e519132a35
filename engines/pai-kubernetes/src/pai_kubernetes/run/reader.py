"""A run on a cluster, as commands read it and act on it."""

import errno
import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import annotation, label, mapping, moment, string
from pai_kubernetes.api.paths import config_maps, events, jobs, jobsets, pods
from pai_kubernetes.api.pod_logs import NO_LOG, read_log
from pai_kubernetes.api.times import as_text
from pai_kubernetes.labels import APP, CANCELLED, HOLD, INIT, RUN, RUNTIME_LOG
from pai_kubernetes.names import job_config_name
from pai_kubernetes.plain import LogName
from pai_kubernetes.run.ends import end_of
from pai_kubernetes.run.keeping import Keeper
from pai_kubernetes.run.logs import Logs
from pai_kubernetes.run.pods import (
    TaskPod,
    addresses,
    by_task,
    container_status,
    has_started,
    of_run,
    task_pods,
)
from pai_kubernetes.run.queueing import deactivate, find_workload
from pai_kubernetes.run.roles import read_roles
from pai_kubernetes.run.sayings import Sayings
from pai_kubernetes.run.state import readable, run_of
from pai_kubernetes.run.watched import Watched, no_such_run
from pai_pod.engine import read_told, with_given_peers
from pai_runtime.engine import (
    CannotEnter,
    CannotRemove,
    LogReader,
    Progress,
    Run,
    RunReader,
    RunTask,
    TaskVariables,
    Unreadable,
)
from pai_runtime.engine.keeping import Kept, Seen, kept_at

_GONE: Final = "its pod is gone; this is what was read of it while the run was followed"
_LINES: Final = 200
"""Number of last lines of a sidecar's log, among which it prints the variables."""
_MOST_BYTES: Final = 1 << 20
_REST_OF_PODS: Final = 2.0
"""Seconds to wait for the nodes to say how containers ended, once the run is over and its logs are read."""


class Reader(RunReader):
    """The run `named`; `kubectl` has the first words of a command line of kubectl.

    What is read of the run while it is followed is kept on this machine, for when the cluster no longer has
    it: in the empty directory `keep`, or in one of the engine's.

    The first request asks the cluster; further ones use watches, so that polling each second does not ask it
    again.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        profile_name: str,
        *,
        kubectl: Sequence[str] = ("kubectl",),
        keep: Path | None = None,
    ) -> None:
        self.named = name
        self.on = profile_name
        self._api = api
        self._kubectl = kubectl
        self._was_asked = False
        self._watched: Watched | None = None
        self._pods: Mapping[str, Sequence[TaskPod]] = {}
        self._logs = Logs(api, self._task_pods)
        self._sayings = Sayings(api, self._task_pods)
        self._may_hold = False
        self._uid = ""
        place = kept_at(profile_name, name)
        self._kept = Kept(place) if place is not None else None
        self._seen: Seen | None = None
        self._keep = keep
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
            return run
        if self._keeper is not None and watched is not None:
            self._followed = run
            self._keeper.look(run, string(watched.jobset(), "metadata", "uid"))
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
        if left_out := self._logs.left_out():
            logs = shlex.join(["pai-runtime", "logs", self.named, "TASK", "-f", "--on", self.on])
            self._say_once(f"the output of {left_out} more tasks is not shown here; to follow one: {logs}")

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._say(text)

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
        """Return the exit record of a task from the termination message of its last pod, or a substitute."""
        pod = self._pod(task)
        if pod is None and self._kept is not None and self._seen is not None:
            return self._kept.record(task.name)
        end = end_of(pod.document) if pod is not None else None
        return end.record if end is not None else {}

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """Return a log from the node of the task's pod; from the local copy if the pods are gone."""
        is_gone = self._seen is not None and not self._logs.pods_of(task.name, attempt)
        kept = self._kept.log(task, log, attempt) if self._kept is not None and is_gone else None
        return kept or self._logs.log(task, log, attempt)

    def variables(self, task: RunTask) -> TaskVariables:
        """Return the variables that the sidecar prints, with peers'.

        Raises OSError, ValueError, `ClusterError`.
        """
        pod = self._pod(task)
        if pod is None and self._kept and self._seen and (kept := self._kept.variables(task.name)):
            return TaskVariables(kept, f"the variables of {task.name} about its peers are not kept")
        if pod is None or pod.is_gone or not has_started(pod.document, RUNTIME_LOG):
            raise OSError(errno.ENODATA, "its pod does not tell them (yet, or any more)")
        try:
            told = read_told(read_log(self._api, pod.name, RUNTIME_LOG, lines=_LINES, most=_MOST_BYTES))
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
        """Delete the JobSet, with all that it owns. Raises `CannotRemove`."""
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
        return None

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Raise `CannotEnter` with the command line of kubectl that enters the task."""
        pod = self._pod(task)
        if pod is None:
            raise CannotEnter(f"there is no pod of {task.name}")
        if pod.is_gone or "running" not in container_status(pod.document, APP):
            has_ended = pod.is_gone or end_of(pod.document) is not None
            raise CannotEnter(
                f"the container of {task.name} {'has ended' if has_ended else 'does not run yet'}"
            )
        words = [*self._kubectl, "exec", "-it", "-n", self._api.namespace, pod.name, "-c", APP, "--"]
        raise CannotEnter(f"enter it with kubectl: {shlex.join([*words, *(argv or ['sh'])])}")

    def _ask(self) -> Run | Unreadable:
        self._uid = ""
        try:
            jobset = self._api.get(jobsets(self._api.namespace, self.named))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.reason == "NotFound":
                return no_such_run(self.named, self._api)
            raise
        self._uid = string(jobset, "metadata", "uid")
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
