"""The logs of a run's tasks, read from the nodes of their pods."""

import errno
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.pod_logs import NO_LOG, LogStream, read_log
from pai_kubernetes.labels import APP, INIT, RUNTIME_LOG
from pai_kubernetes.run.ends import end_of
from pai_kubernetes.run.pods import TaskPod, container_status, has_started
from pai_pod.engine import told_variables
from pai_runtime.engine import RunTask
from pai_runtime.engine.records import LogName, LogsAtOnce, Piece

MOST_TAILS: Final = 20
"""Maximum number of requests for the ends of logs that are not followed, per reader."""
_CONTAINERS: Final = {"user": (APP,), "runtime": (INIT, RUNTIME_LOG)}
_TAIL_BYTES = 8192
_TAIL_LINES = 50
_MOST_TAIL = 1 << 18
_PIECE = 1 << 16
_GONE: Final = "some or all of it is gone: the cluster has removed the pod, or the node its container"
_HUGE: Final = 1 << 62
"""A size larger than that of any log; the real one is unknown."""


class Logs:
    """The logs of tasks by their pods; if `is_live`, they are followed, and reading does not block."""

    def __init__(self, api: Api, pods: Callable[[], Mapping[str, Sequence[TaskPod]]]) -> None:
        self.api = api
        self.is_live = False
        self.on_read: Callable[[TaskPod, LogName, bytes], None] = lambda _pod, _log, _data: None
        self._pods = pods
        self.at_once = LogsAtOnce[TaskLog]()
        self._tails = 0
        self._ends: dict[tuple[str, LogName], bytes] = {}

    def log(self, task: RunTask, log: LogName, attempt: int | None) -> "TaskLog":
        """Return a log of a task, from its beginning."""
        return TaskLog(self, task, log, attempt)

    def close(self) -> None:
        """Close all logs that are followed."""
        for log in list(self.at_once.logs):
            log.close()

    def is_more_to_come(self) -> bool:
        """Return whether a followed log has not ended, and is readable."""
        return any(not (log.is_at_end() or log.is_in_trouble()) for log in self.at_once.logs)

    def pods_of(self, task: str, attempt: int | None) -> list[TaskPod]:
        """Return the pods of a task, or of one attempt of it, oldest first."""
        found = self._pods().get(task, ())
        return [pod for pod in found if attempt in (None, pod.attempt) and not pod.is_gone]

    def tail(self, task: str, log: LogName, most: int) -> bytes:
        """Return the end of a log: of what was read of it, or requested, a limited number of times."""
        pods = self.pods_of(task, None)
        if not pods:
            return b""
        key = pods[-1].uid, log
        if key not in self._ends:
            is_over = end_of(pods[-1].document) is not None
            if self._tails == MOST_TAILS or (self.is_live and not is_over):
                return b""
            self._tails += 1
            self._ends[key] = self._ask_for_tail(pods[-1], log)
        return self._ends[key][-most:]

    def keep_tail(self, pod: TaskPod, log: LogName, data: bytes) -> None:
        """Record data that was read from a log."""
        self.on_read(pod, log, data)
        key = pod.uid, log
        self._ends[key] = (self._ends.get(key, b"") + data)[-_TAIL_BYTES:]

    def _ask_for_tail(self, pod: TaskPod, log: LogName) -> bytes:
        containers = [each for each in reversed(_CONTAINERS[log]) if has_started(pod.document, each)]
        try:
            for container in containers:
                lines = told_variables.ToldFilter()
                data = read_log(self.api, pod.name, container, lines=_TAIL_LINES, most=_MOST_TAIL)
                if kept := lines.feed(data) + lines.flush():
                    return kept
        except ApiError:
            pass
        return b""


class TaskLog:
    """One log of one task: of all its pods from the last one on, or of one attempt."""

    def __init__(self, logs: Logs, task: RunTask, log: LogName, attempt: int | None) -> None:
        self.name = f"the {log} log of {task.name}"
        self._logs = logs
        self._task = task.name
        self._log = log
        self._attempt = attempt
        self._left: deque[tuple[str, str]] = deque()
        self._passed: TaskPod | None = None
        self._pod: TaskPod | None = None
        self._stream: LogStream | None = None
        self._is_followed = False
        self._is_lost = False
        self._error: OSError | None = None
        self._filter = told_variables.ToldFilter()
        self._pieces: deque[Piece] = deque()

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty if there is nothing new."""
        data = b""
        try:
            while len(data) < most and (pieces := self.read_timed(most - len(data))):
                data += b"".join(each for _, each in pieces)
        except OSError as error:
            if not data:
                raise
            self._error = error  # what was read before it comes first
        return data

    def read_timed(self, most: int) -> Sequence[Piece]:
        """Return the next bytes as `read` does, split into pieces by the time at which they were written."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._attempt is not None and not self._logs.pods_of(self._task, self._attempt):
            raise OSError(
                errno.ENODATA, f"no pod of attempt {self._attempt} is left on the cluster", self.name
            )
        while not self._pieces:
            if self._stream is None and not self._open_next():
                self._check_lost()
                return ()
            if not self._read_stream():
                return ()
        taken: list[Piece] = []
        while self._pieces and most > 0:
            moment, data = self._pieces.popleft()
            taken.append((moment, data[:most]))
            if data[most:]:
                self._pieces.appendleft((moment, data[most:]))
            most -= len(taken[-1][1])
        return taken

    def _check_lost(self) -> None:
        """Raise OSError once, at the end of what is left, if some of the log is lost."""
        if self._is_lost:
            self._is_lost = False
            raise OSError(errno.ENODATA, _GONE, self.name)

    def is_in_trouble(self) -> bool:
        """Return whether the log cannot be read from the cluster at present."""
        return self._stream is not None and self._stream.trouble is not None

    def size(self) -> int:
        """Return a size larger than any log's, since the real one is unknown."""
        return _HUGE

    def tail(self, most: int) -> bytes:
        """Return the last bytes of the log, as far as they may be requested."""
        return self._logs.tail(self._task, self._log, most)

    def close(self) -> None:
        """Close the log."""
        self._logs.at_once.logs.discard(self)
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def is_at_end(self) -> bool:
        """Return whether everything was read of containers that have ended."""
        is_read = not (self._pieces or self._is_lost or self._error)
        return is_read and self._stream is None and not self._next()

    def _read_stream(self) -> bool:
        """Take what has come; return whether that was anything, or whether something else may be read now."""
        stream, pod = self._stream, self._pod
        if stream is None or pod is None:
            return False
        try:
            pieces = stream.read(_PIECE, wait=not self._logs.is_live)
        except ApiError as error:
            self._is_lost |= stream.is_lost
            self._end_stream()
            if error.status in NO_LOG:
                return True
            raise OSError(errno.EIO, str(error), self.name) from None
        self._keep(pod, pieces)
        if not pieces and stream.trouble is not None:
            raise OSError(errno.EAGAIN, str(stream.trouble), self.name)
        if pieces or not stream.is_over:
            return bool(pieces)
        if not self._is_followed and self._is_running(pod, stream.container):
            if self._logs.is_live:
                stream.follow()
                self._is_followed = True
            return False
        if rest := self._filter.flush():
            self._pieces.append((None, rest))
        self._end_stream()
        return True

    def _keep(self, pod: TaskPod, pieces: Sequence[Piece]) -> None:
        for moment, data in pieces:
            if kept := self._filter.feed(data) if self._log == "runtime" else data:
                self._logs.keep_tail(pod, self._log, kept)
                self._pieces.append((moment, kept))

    def _is_running(self, pod: TaskPod, container: str) -> bool:
        """Return whether a container of a pod has not ended."""
        now = (each for each in self._logs.pods_of(self._task, self._attempt) if each.uid == pod.uid)
        return any("running" in container_status(each.document, container) for each in now)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._logs.at_once.logs.discard(self)

    def _open_next(self) -> bool:
        """Open the next container's log, if started and within the limit; return whether it was opened."""
        found = self._next()
        if found is None or not self._logs.at_once.may_read(self, is_told=self._logs.is_live):
            return False
        self._pod, container = found
        self._left.popleft()
        self._filter = told_variables.ToldFilter()
        self._is_followed = self._logs.is_live
        pod = self._pod
        self._stream = LogStream(
            self._logs.api,
            pod.name,
            container,
            follow=self._is_followed,
            goes_on=lambda: self._logs.is_live and self._is_running(pod, container),
        )
        return True

    def _next(self) -> tuple[TaskPod, str] | None:
        """Return the pod and the container to read next; None if that has not started."""
        pods = self._logs.pods_of(self._task, self._attempt)
        while self._left or self._go_on(pods):
            uid, container = self._left[0]
            pod = next((each for each in pods if each.uid == uid), None)
            if pod is not None and has_started(pod.document, container):
                return pod, container
            if pod is not None and pod is pods[-1]:
                return None  # it may start yet
            self._left.clear()  # it was deleted, or another one has taken its place before it started
        return None

    def _go_on(self, pods: Sequence[TaskPod]) -> bool:
        """Switch to the last pod, or after it to the next one; return whether there is one."""
        passed = self._passed
        later = [pod for pod in pods if passed is None or pod.order() > passed.order()]
        if not later:
            return False
        self._passed = later[-1] if passed is None else later[0]
        self._left.extend((self._passed.uid, each) for each in _CONTAINERS[self._log])
        return True
