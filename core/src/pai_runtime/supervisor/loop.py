"""The event loop of a task: its children, their output, timers and signals, in one thread.

It does the duties of an init process: every child is reaped, also one that a dead process of the task has
left to us, and the statuses of those that somebody waits for are kept. At the end no process of the task
is left, whatever process group or session it has put itself into.
"""

from __future__ import annotations

import fcntl
import os
import select
import time

from pai_runtime.supervisor.process_tree import adopt_orphans, kill_all_others, kill_children
from pai_runtime.supervisor.spawning import CannotStart, Program, spawn
from pai_runtime.supervisor.stop import FOREVER
from pai_runtime.supervisor.wake_pipe import WakePipe
from pai_runtime.task.exit_codes import NOT_EXECUTED, killed_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as record

    from pai_runtime.supervisor.logs import Sink
    from pai_runtime.task.vocabulary import CutShort
else:
    from pai_runtime.task.record import record

_PIPE_SIZE = 65536
"""Bytes that a pipe holds unless it is asked to hold more."""

_WIDE_PIPE_SIZE = _MOST_READ = 1 << 18
_REUSED = 1 << 22
_CHUNK = 65536
_MOST_CHUNKS = 64
_QUIET = 0.2
"""Seconds without output after which a sink is told so."""


@record(frozen=True)
class ExitStatus:
    """How a process ended: its exit code, with 128 + n for signal n, and whether that was our doing."""

    code: int
    signal: int | None = None
    cut_short: CutShort | None = None


CANNOT_START = ExitStatus(NOT_EXECUTED)
"""What stands for the end of a step that could not be started, as a shell says it."""


class Child:
    """A process that we have started, which leads a process group; `ended` once it has."""

    def __init__(self, pid: int, on_end: Callable[[ExitStatus], None] | None = None) -> None:
        self.pid = pid
        self.on_end = on_end
        self.ended: ExitStatus | None = None

    def signal_group(self, number: int) -> None:
        """Send a signal to its whole group, if any of it is left."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


class Loop:
    """The event loop: turns until its caller has what it waits for.

    What it spawns has this `umask`, if any.
    """

    def __init__(self, umask: int | None = None) -> None:
        self._umask = umask
        self._poll = select.poll()
        self._sinks: dict[int, Sink] = {}
        self._children: dict[int, Child] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._quiet_at: dict[Sink, float] = {}
        self._heard: tuple[int, Callable[[bytes], None]] | None = None
        self._watched: dict[int, Callable[[], None]] = {}
        self._wake = WakePipe()
        self._poll.register(self._wake.fd, select.POLLIN)
        adopt_orphans()

    def pipe(self, sink: Sink) -> int:
        """The write end of a new pipe whose other end goes to `sink`; raises `CannotStart`."""
        try:
            read, write = os.pipe()
        except OSError as error:
            raise CannotStart(error.strerror) from None
        os.set_blocking(read, False)
        self._poll.register(read, select.POLLIN)
        self._sinks[read] = sink
        return write

    def listen(self, pipe: int, hear: Callable[[bytes], None]) -> None:
        """Have `hear` get what processes of the task write to a pipe before any later output of theirs."""
        self._poll.register(pipe, select.POLLIN)  # also while there is no output: it would fill up
        self._heard = pipe, hear

    def hear(self) -> None:
        """Take what was written for `listen` until now, but for what is being written without an end."""
        if self._heard is not None:
            fd, hear = self._heard
            data = b""
            try:
                for _ in range(_MOST_CHUNKS):
                    data += os.read(fd, _CHUNK)
            except BlockingIOError:
                pass
            if data:
                hear(data)

    def watch(self, fd: int, on_ready: Callable[[], None]) -> None:
        """Call `on_ready` whenever there is something to read."""
        self._poll.register(fd, select.POLLIN)
        self._watched[fd] = on_ready

    def unwatch(self, fd: int) -> None:
        """The end of `watch`."""
        self._poll.unregister(fd)
        del self._watched[fd]

    def spawn(
        self,
        program: Program,
        stdout: int,
        stderr: int,
        on_end: Callable[[ExitStatus], None] | None = None,
    ) -> Child:
        """Start a process, whose end is seen in a later turn; raises `CannotStart`."""
        child = Child(spawn(program, stdout, stderr, self._umask), on_end)
        self._children[child.pid] = child
        return child

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call something in the first turn after a time (monotonic clock)."""
        self._timers.append((when, call))

    def turn(self, until: float = FOREVER) -> bool:
        """Wait for output, a signal, a timer or the time, and do what there is to do. Whether output came."""
        until = min([until, *(when for when, _ in self._timers), *self._quiet_at.values()])
        moved = self._move(None if until == FOREVER else max(until - time.monotonic(), 0))
        self._reap()
        self._call_what_is_due()
        for sink in [sink for sink, when in self._quiet_at.items() if when <= time.monotonic()]:
            del self._quiet_at[sink]
            if sink.idle():
                self._quiet_at[sink] = time.monotonic() + _QUIET
        return moved

    def drain(self, bound: float) -> None:
        """Hand on what is in the pipes, without waiting for those who hold them open; `bound` in seconds."""
        until = time.monotonic() + bound
        while self._move(0) and time.monotonic() < until:
            pass

    def kill_all(self, bound: float) -> None:
        """Kill every process that is left of the task, as the end of a container does."""
        until = time.monotonic() + bound
        kill = kill_all_others if os.getpid() == 1 else kill_children
        while kill() and time.monotonic() < until:
            self.turn(time.monotonic() + 0.1)

    def _call_what_is_due(self) -> None:
        now = time.monotonic()
        due = sorted((timer for timer in self._timers if timer[0] <= now), key=lambda timer: timer[0])
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for _, call in due:
            call()

    def _move(self, timeout: float | None) -> bool:
        moved = False
        for fd, _ in self._poll.poll(None if timeout is None else -(-timeout * 1000 // 1)):
            if fd == self._wake.fd:
                self._wake.clear()
            elif self._heard and fd == self._heard[0]:
                self.hear()
            elif fd in self._sinks:
                moved = self._pass_on(fd) or moved
            elif fd in self._watched:
                self._watched[fd]()
        return moved

    def _pass_on(self, fd: int) -> bool:
        """Hand what is in a pipe to its sink; whether that was anything."""
        try:
            data = os.read(fd, _MOST_READ)
        except BlockingIOError:
            return False
        if len(data) == _PIPE_SIZE:
            _widen(fd)
        if not data:
            self._poll.unregister(fd)
            del self._sinks[fd]
            os.close(fd)
            return False
        self.hear()  # after the output was read: what was said before it has come by now
        sink = self._sinks[fd]
        sink.feed(data)
        self._quiet_at[sink] = time.monotonic() + _QUIET
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            child.ended = ExitStatus(code) if code >= 0 else ExitStatus(killed_by(-code), -code)
            if child.on_end:
                child.on_end(child.ended)


def _widen(pipe: int) -> None:
    """Have a pipe that was full hold more, so that its writer waits less, and we are woken less often.

    Not from the start: the system gives each user only so much room for pipes.
    """
    bytes(_REUSED)  # the C library keeps what is freed for the next piece once so much has been freed at once
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE_PIPE_SIZE)
    except OSError:
        pass
