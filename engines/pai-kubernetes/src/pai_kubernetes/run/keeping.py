"""Recording of a followed run: its output, and the records of tasks that have ended."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.pod_logs import read_log
from pai_kubernetes.labels import INIT, RUNTIME_LOG
from pai_kubernetes.run.pods import TaskPod, has_started
from pai_pod.engine import told_variables
from pai_runtime.engine import Run, RunTask
from pai_runtime.engine.keeping import Kept, Seen
from pai_runtime.engine.records import MOST_AT_ONCE, LogName

_LINES: Final = 10_000
_MOST_BYTES: Final = 4 << 20
_WAIT: Final = 2.0
"""Seconds to wait at the end for logs that are being read, before pods are deleted."""


class Keeper:
    """A recorder of a followed run; the first error is reported by `say`, and ends the recording."""

    def __init__(
        self,
        kept: Kept,
        api: Api,
        pod_of: Callable[[RunTask], TaskPod | None],
        record_of: Callable[[RunTask], Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> None:
        self._kept: Kept | None = kept
        self._api = api
        self._pod_of = pod_of
        self._record_of = record_of
        self._say = say
        self._states: Sequence[tuple[str, int, str]] = ()
        self._asked: set[str] = set()
        self._ended: queue.Queue[tuple[RunTask, TaskPod] | None] = queue.Queue()
        threading.Thread(target=self._read_ended, daemon=True, name=f"keeper {kept.path.name}").start()

    def output(self, pod: TaskPod, log: LogName, data: bytes) -> None:
        """Record output that was read from a log."""
        if log == "user":
            self._try(lambda kept: kept.append(f"{pod.task[0]}/{pod.task[1]}", pod.attempt, log, data))

    def look(self, run: Run, uid: str) -> None:
        """Record the current state of the run."""
        states = [(task.name, task.retries, task.state) for task in run.tasks]
        if states == self._states:
            return
        self._states = states
        self._try(lambda kept: kept.keep(Seen(run, uid)))
        for task in run.tasks:
            pod = self._pod_of(task)
            if pod is not None and task.over and pod.uid not in self._asked:
                self._asked.add(pod.uid)
                self._keep_record(task)
                if not pod.is_gone and len(self._asked) <= MOST_AT_ONCE:
                    self._ended.put((task, pod))

    def end(self, run: Run, uid: str) -> None:
        """Record the final state, and stop."""
        self._states = ()
        self.look(run, uid)
        with self._ended.all_tasks_done:
            self._ended.all_tasks_done.wait_for(lambda: not self._ended.unfinished_tasks, _WAIT)
        self._kept = None
        self._ended.put(None)

    def _keep_record(self, task: RunTask) -> None:
        found = self._record_of(task)
        self._try(lambda kept: kept.keep_record(task.name, found))

    def _read_ended(self) -> None:
        while ended := self._ended.get():
            with suppress(ApiError, ValueError):
                self._read(*ended)
            self._ended.task_done()

    def _read(self, task: RunTask, pod: TaskPod) -> None:
        """Record the runtime's log and the variables from a pod that still exists."""
        for container in (INIT, RUNTIME_LOG):
            if has_started(pod.document, container):
                log = read_log(self._api, pod.name, container, lines=_LINES, most=_MOST_BYTES)
                told = told_variables.read_told(log)
                self._take(task, pod, told_variables.without_told(log), told)

    def _take(self, task: RunTask, pod: TaskPod, text: bytes, told: Mapping[str, Any]) -> None:
        self._try(lambda kept: kept.append(task.name, pod.attempt, "runtime", text))
        if told:
            self._try(lambda kept: kept.keep_variables(task.name, told))

    def _try(self, do: Callable[[Kept], None]) -> None:
        kept = self._kept
        try:
            if kept is not None:
                do(kept)
        except OSError as error:
            self._kept = None
            self._say(f"what the tasks write is not kept any more: {error.filename}: {error.strerror}")
