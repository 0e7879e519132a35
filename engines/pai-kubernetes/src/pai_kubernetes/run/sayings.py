"""What only the runtime's log of a task says: why it waits in its init container, and that it is held."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import moment, shown
from pai_kubernetes.api.pod_logs import read_log
from pai_kubernetes.labels import INIT, RUNTIME_LOG
from pai_kubernetes.run.pods import TaskPod, container_status
from pai_pod.engine import told_variables
from pai_runtime.engine import Progress, Run, RunTask
from pai_runtime.engine.records import progress_of, text_of

LONG: Final = 20.0
"""Seconds in the init container after which the reason is read."""
_EVERY: Final = 10.0
_MOST_WAITING: Final = 3
"""Maximum number of tasks whose reason to wait is read; most wait for the same."""
_MOST_HELD: Final = 20
_LINES: Final = 20
_MOST_BYTES: Final = 1 << 16


class Sayings:
    """A reader of the ends of these logs, of a few tasks and now and then, in a thread or at once."""

    def __init__(self, api: Api, pods: Callable[[], Mapping[str, Sequence[TaskPod]]]) -> None:
        self._api = api
        self._pods = pods
        self._next = 0.0
        self._asking: threading.Thread | None = None
        self._waiting: dict[str, str] = {}
        self._kept: dict[str, Progress] = {}

    def noted(self, run: Run, *, may_hold: bool, wait: bool) -> Run:
        """Return the run with what its tasks have said; with `may_hold`, running ones may be held."""
        if not run.over and time.monotonic() >= self._next and not (self._asking and self._asking.is_alive()):
            self._next = time.monotonic() + _EVERY
            wanted = [*self._long_in_init(run), *(self._running(run) if may_hold else ())]
            self._asking = threading.Thread(target=self._ask, args=(wanted,), daemon=True) if wanted else None
            if self._asking:
                self._asking.start()
                self._asking.join(None if wait else 0)
        return replace(run, tasks=tuple(map(self._noted, run.tasks))) if self._waiting else run

    def progress(self, task: RunTask) -> Progress | None:
        """Return the progress of a running task that has said that it is held; None if it has not."""
        pod = self._last(task)
        return self._kept.get(pod.uid) if pod and task.state == "running" else None

    def _noted(self, task: RunTask) -> RunTask:
        pod = self._last(task) if task.state == "waiting" else None
        said = self._waiting.get(pod.uid) if pod and _in_init(pod) else None
        return replace(task, note=shown(f"init container is running: {said}")) if said else task

    def _long_in_init(self, run: Run) -> Iterator[tuple[TaskPod, str]]:
        since = [
            (began, pod)
            for task in run.tasks
            if task.state == "waiting" and (pod := self._last(task)) and (began := _in_init(pod))
        ]
        for began, pod in sorted(since, key=lambda each: each[0])[:_MOST_WAITING]:
            if time.time() - began >= LONG:
                yield pod, INIT

    def _running(self, run: Run) -> Iterator[tuple[TaskPod, str]]:
        pods = [pod for task in run.tasks if task.state == "running" and (pod := self._last(task))]
        return ((pod, RUNTIME_LOG) for pod in pods[:_MOST_HELD])

    def _last(self, task: RunTask) -> TaskPod | None:
        pod = next(reversed(self._pods().get(task.name, ())), None)
        return None if pod is None or pod.is_gone else pod

    def _ask(self, wanted: Sequence[tuple[TaskPod, str]]) -> None:
        for pod, container in wanted:
            try:
                log = read_log(self._api, pod.name, container, lines=_LINES, most=_MOST_BYTES)
                if container == INIT:
                    self._waiting[pod.uid] = _last_line(log)
                elif (
                    told := progress_of(told_variables.read_told(log, told_variables.STATE_PREFIX))
                ) and told.held_until is not None:
                    self._kept[pod.uid] = told
                else:
                    self._kept.pop(pod.uid, None)
            except (ApiError, ValueError):
                continue  # nobody is told more than without it


def _in_init(pod: TaskPod) -> float | None:
    """Return since when the init container runs; None if it does not."""
    return moment(container_status(pod.document, INIT), "running", "startedAt")


def _last_line(log: bytes) -> str:
    lines = (line for line in reversed(log.split(b"\n")) if line.strip() and not told_variables.is_told(line))
    return text_of(next(lines, b"").decode("utf-8", "replace"))
