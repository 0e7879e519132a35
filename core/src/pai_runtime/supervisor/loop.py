"""The event loop of a task: its children, their output, timers and signals, in one thread.

It does the duties of an init process: every child is reaped, also one that a dead process of the task has
left to us, and the statuses of those that somebody waits for are kept. At the end no process of the task
is left, whatever process group or session it has put itself into.
"""

import contextlib
import fcntl
import heapq
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pai_runtime.supervisor.logs import Sink
from pai_runtime.supervisor.process_tree import adopt_orphans, end_with_parent, kill_all_others, kill_children
from pai_runtime.supervisor.stop import FOREVER
from pai_runtime.task.memfd import SCRIPT_FD, hand_over_script

_PIPE_SIZE = 65536
"""Bytes that a pipe holds unless it is asked to hold more."""

_WIDE_PIPE_SIZE = _MOST_READ = 1 << 18
_REUSED = 1 << 22
_CHUNK = 65536
_MOST_CHUNKS = 64
_QUIET = 0.2
"""Seconds without output after which a sink is told so."""


class CannotStart(Exception):
    """The system gives no process, or no pipe for one: too many open files or processes, no memory."""


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended: its exit code, with 128 + n for signal n."""

    code: int
    signal: int | None = None


CANNOT_START = ExitStatus(126)
"""What stands for the end of a step that could not be started, as a shell says it."""


@dataclass
class Child:
    """A process that we have started, which leads a process group; `ended` once it has."""

    pid: int
    on_end: Callable[[ExitStatus], None] | None = None
    ended: ExitStatus | None = None

    def signal_group(self, number: int) -> None:
        """Send a signal to its whole group, if any of it is left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _widen(pipe: int) -> None:
    """Have a pipe that was full hold more, so that its writer waits less, and we are woken less often.

    Not from the start: the system gives each user only so much room for pipes.
    """
    bytes(_REUSED)  # the C library keeps what is freed for the next piece once so much has been freed at once
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE_PIPE_SIZE)


@dataclass(order=True)
class _Timer:
    at: float
    call: Callable[[], None] = field(compare=False)


class Loop:
    """Turns until somebody has what it waits for."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}
        self._timers: list[_Timer] = []
        self._quiet_at: dict[Sink, float] = {}
        self._heard: tuple[int, Callable[[bytes], None]] | None = None
        self._let_signals_end_a_wait()
        adopt_orphans()

    def pipe(self, sink: Sink) -> int:
        """The write end of a new pipe whose other end goes to `sink`; raises `CannotStart`."""
        try:
            read, write = os.pipe()
        except OSError as error:
            raise CannotStart(error.strerror) from None
        os.set_blocking(read, False)
        self._selector.register(read, selectors.EVENT_READ, sink)
        return write

    def listen(self, pipe: int, hear: Callable[[bytes], None]) -> None:
        """Have `hear` get what processes of the task write to a pipe before any later output of theirs."""
        self._selector.register(pipe, selectors.EVENT_READ)  # also while there is no output: it would fill up
        self._heard = pipe, hear

    def hear(self) -> None:
        """Take what was written for `listen` until now, but for what is being written without an end."""
        if self._heard is not None:
            fd, hear = self._heard
            data = b""
            with contextlib.suppress(BlockingIOError):
                for _ in range(_MOST_CHUNKS):
                    data += os.read(fd, _CHUNK)
            if data:
                hear(data)

    def spawn(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        stdout: int,
        stderr: int,
        fds: tuple[int, ...] = (),
        on_end: Callable[[ExitStatus], None] | None = None,
    ) -> Child:
        """Start a process in a session of its own, with no standard input; raises `CannotStart`.

        It finds `script` at `SCRIPT_FD`.
        """
        try:
            hand_over_script(script)
            process = subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(SCRIPT_FD, *fds),
                start_new_session=True,
                # Where it is not in a namespace that ends with us anyway.
                preexec_fn=None if os.getpid() == 1 else end_with_parent,  # noqa: PLW1509 - there are no threads
            )
        except OSError as error:
            raise CannotStart(f"{argv[0]}: {error.strerror}") from None
        process.returncode = 0  # we reap it ourselves
        child = Child(process.pid, on_end)
        self._children[child.pid] = child
        return child

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call something in the first turn after a time (monotonic clock)."""
        heapq.heappush(self._timers, _Timer(when, call))

    def turn(self, until: float = FOREVER) -> bool:
        """Wait for output, a signal, a timer or the time, and do what there is to do. Whether output came."""
        until = min(until, self._timers[0].at if self._timers else FOREVER, *self._quiet_at.values())
        moved = self._move(None if until == FOREVER else max(until - time.monotonic(), 0))
        self._reap()
        while self._timers and self._timers[0].at <= time.monotonic():
            heapq.heappop(self._timers).call()
        for sink in [sink for sink, when in self._quiet_at.items() if when <= time.monotonic()]:
            del self._quiet_at[sink]
            sink.idle()
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

    def _move(self, timeout: float | None) -> bool:
        moved = False
        for key, _ in self._selector.select(timeout):
            if self._heard and key.fd == self._heard[0]:
                self.hear()
                continue
            try:
                data = os.read(key.fd, _MOST_READ)
            except BlockingIOError:
                continue
            if len(data) == _PIPE_SIZE:
                _widen(key.fd)
            if key.data is None:
                continue
            if data:
                self.hear()  # after the output was read: what was said before it has come by now
                key.data.feed(data)
                self._quiet_at[key.data] = time.monotonic() + _QUIET
                moved = True
            else:
                self._selector.unregister(key.fd)
                os.close(key.fd)
        return moved

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
            child.ended = ExitStatus(code) if code >= 0 else ExitStatus(128 - code, -code)
            if child.on_end:
                child.on_end(child.ended)

    def _let_signals_end_a_wait(self) -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._selector.register(read, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
