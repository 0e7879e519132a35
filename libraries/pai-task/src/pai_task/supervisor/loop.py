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
from functools import partial

from pai_task.exit_codes import NOT_EXECUTED, RUNTIME_ERROR, killed_by
from pai_task.record import record
from pai_task.supervisor.process_tree import adopt_orphans, kill_all_others, kill_children, reaped
from pai_task.supervisor.spawning import CannotStart, Program, spawn
from pai_task.supervisor.stop import FOREVER
from pai_task.supervisor.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pai_task.supervisor.keeper import Keeper
    from pai_task.supervisor.logs import Sink
    from pai_task.vocabulary import CutShort

_PIPE_SIZE = 65536
"""Default capacity of a pipe in bytes."""

_WIDE_PIPE_SIZE = _MOST_READ = 1 << 18
_REUSED = 1 << 22
_CHUNK = 65536
_MOST_CHUNKS = 64
_QUIET = 0.2
"""Seconds without output after which `Sink.idle` is called."""


@record(frozen=True)
class ExitStatus:
    """The end of a process: its exit code, which is 128 + n for signal n.

    `cut_short` says whether the runtime stopped or skipped it.
    """

    code: int
    signal: int | None = None
    cut_short: CutShort | None = None


CANNOT_START = ExitStatus(NOT_EXECUTED)
"""The exit status of a step that could not be started, with the code that a shell uses."""


class Child:
    """A child process that leads a process group; `ended` is its exit status once it has one."""

    def __init__(self, pid: int, on_end: Callable[[ExitStatus], None] | None = None) -> None:
        self.pid = pid
        self.on_end = on_end
        self.ended: ExitStatus | None = None

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole process group, if any of it is left."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


class Loop:
    """The event loop, which turns until its caller has what it waits for.

    `umask`, if any, is that of the processes that it spawns.
    """

    def __init__(self, umask: int | None = None) -> None:
        self._umask = umask
        self._poll = select.poll()
        self._sinks: dict[int, Sink] = {}
        self._children: dict[int, Child] = {}
        self.keepers: set[int] = set()
        """Processes above the command that are ours."""
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._quiet_at: dict[Sink, float] = {}
        self._heard: tuple[int, Callable[[bytes], None]] | None = None
        self._watched: dict[int, Callable[[], None]] = {}
        self._wake = WakePipe()
        self._poll.register(self._wake.fd, select.POLLIN)
        adopt_orphans()

    def pipe(self, sink: Sink) -> int:
        """Return the write end of a new pipe that is read into `sink`. Raises `CannotStart`."""
        try:
            read, write = os.pipe()
        except OSError as error:
            raise CannotStart(error.strerror) from None
        os.set_blocking(read, False)
        self._poll.register(read, select.POLLIN)
        self._sinks[read] = sink
        return write

    def listen(self, pipe: int, hear: Callable[[bytes], None]) -> None:
        """Read a pipe of the task's processes; call `hear` before handling any output written later."""
        self._poll.register(pipe, select.POLLIN)  # also while there is no output: it would fill up
        self._heard = pipe, hear

    def hear(self) -> None:
        """Handle what has been written for `listen` so far, but not without end."""
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
        """Call `on_ready` whenever a descriptor is readable."""
        self._poll.register(fd, select.POLLIN)
        self._watched[fd] = on_ready

    def unwatch(self, fd: int) -> None:
        """Stop watching a descriptor."""
        self._poll.unregister(fd)
        del self._watched[fd]

    def spawn(
        self,
        program: Program,
        stdout: int,
        stderr: int,
        on_end: Callable[[ExitStatus], None] | None = None,
        keeper: Keeper | None = None,
    ) -> Child:
        """Start a process, whose end is seen in a later turn; below a `keeper`, if given.

        Raises `CannotStart`.
        """
        if keeper:
            child = Child(keeper.spawn(program, stdout, stderr, self._umask), on_end)
            self._children[keeper.pid] = Child(keeper.pid, partial(self._keeper_ended, keeper, child))
            self.keepers.add(keeper.pid)
            self._end_with(os.pidfd_open(child.pid), keeper)
        else:
            child = Child(spawn(program, stdout, stderr, self._umask), on_end)
        self._children[child.pid] = child
        return child

    def _keeper_ended(self, keeper: Keeper, child: Child, status: ExitStatus) -> None:
        """Handle the end of a keeper; one that has waited for the child itself has taken its exit status."""
        keeper.ended(status)
        try:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            if self._children.pop(child.pid, None):
                child.ended = ExitStatus(RUNTIME_ERROR)
                if child.on_end:
                    child.on_end(child.ended)

    def _end_with(self, pidfd: int, keeper: Keeper) -> None:
        """End a keeper when the process has ended that it has started: that one is ours to reap then."""

        def end() -> None:
            self.unwatch(pidfd)
            os.close(pidfd)
            keeper.end()

        self.watch(pidfd, end)

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call a function in the first turn after a time of the monotonic clock."""
        self._timers.append((when, call))

    def turn(self, until: float = FOREVER) -> bool:
        """Wait for output, a signal, a timer or `until`, and handle them; return whether there was output."""
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
        """Read what is in the pipes, for at most `bound` seconds, without waiting for their ends."""
        until = time.monotonic() + bound
        while self._move(0) and time.monotonic() < until:
            pass

    def kill_all(self, bound: float) -> None:
        """Kill all processes left of the task, as the end of a container does, within `bound` seconds."""
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
        """Pass what is in a pipe on to its sink; return whether there was anything."""
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
        for pid, status in reaped():
            child = self._children.pop(pid, None)
            if child is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            child.ended = ExitStatus(code) if code >= 0 else ExitStatus(killed_by(-code), -code)
            if child.on_end:
                child.on_end(child.ended)


def _widen(pipe: int) -> None:
    """Increase the capacity of a pipe that was full, for fewer waits of its writer and fewer wake-ups.

    This is not done from the start: the kernel limits the pipe memory of each user.
    """
    bytes(_REUSED)  # the C library keeps what is freed for the next piece once so much has been freed at once
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE_PIPE_SIZE)
    except OSError:
        pass
