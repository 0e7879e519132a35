"""The processes of a task: one at a time in the foreground, each leading a process group of its own."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Literal

from pai_runtime.task.logs import Sink
from pai_runtime.task.shell import SCRIPT_FD, ScratchFile

StopReason = Literal["cancelled", "timeout"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_CHUNK = 65536
FOREVER = float("inf")


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, with 128 + n for signal n."""

    code: int
    signal: int | None = None


def on_stop_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Call `handler` for each of `STOP_SIGNALS`, but not for a SIGHUP that ``nohup`` has turned off."""
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


class Stop:
    """Whether the task has been told to stop, why, and until when what is done afterwards may take.

    A signal of `STOP_SIGNALS` cancels the task, and the second of them ends it at once, without any more callbacks.
    A time limit, in seconds from now, ends it as ``timeout``. After either, the exit callbacks have
    `exit_budget` seconds in all.
    """

    def __init__(self, timeout: float | None, exit_budget: float) -> None:
        self.signal: int | None = None
        self.at_once = False
        self._told_at = FOREVER
        self._timeout_at = time.monotonic() + timeout if timeout is not None else FOREVER
        self._exit_budget = exit_budget
        on_stop_signals(self._tell)

    def reason(self) -> StopReason | None:
        """The reason to stop, if there is one by now: the first one, if there are two."""
        if self._told_at <= min(time.monotonic(), self._timeout_at):
            return "cancelled"
        return "timeout" if time.monotonic() >= self._timeout_at else None

    def work_until(self) -> float:
        """When whatever comes before the exit callbacks has to stop (monotonic clock)."""
        return min(self._told_at, self._timeout_at)

    def exits_until(self) -> float:
        """When the exit callbacks have to stop."""
        return 0.0 if self.at_once else self.work_until() + self._exit_budget

    def _tell(self, number: int, _frame: FrameType | None) -> None:
        self.at_once = self.signal is not None
        if self.signal is None:
            self.signal = number
            self._told_at = time.monotonic()


class Processes:
    """Starts processes and moves their output while they run.

    A process that is told to stop gets SIGTERM, and SIGKILL when `grace` seconds have passed, each for its
    whole group. Background processes that a step leaves behind live on, and their output with them,
    until `end`.
    """

    def __init__(self, grace: float, stop: Stop, steps_output: Sink, script: ScratchFile) -> None:
        self._grace = grace
        self._stop = stop
        self._script = script
        self._selector = selectors.DefaultSelector()
        self._wake_up()
        self._steps_output = steps_output
        self._leaders: list[subprocess.Popen[bytes]] = []
        self._steps_pipe = self._pipe(steps_output)

    def run_step(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        fds: tuple[int, ...],
        stop_at: Callable[[], float],
    ) -> Ended:
        """Run a step to its end, or until the time (monotonic) that `stop_at` gives."""
        ended = self._run(argv, environment, script, fds, self._steps_pipe, self._steps_pipe, stop_at)
        self._steps_output.flush()
        return ended

    def run_command(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        stdout: Sink,
        stderr: Sink,
        stop_at: Callable[[], float],
    ) -> Ended:
        """Run the user's command likewise, its two streams apart."""
        out, err = self._pipe(stdout), self._pipe(stderr)
        try:
            ended = self._run(argv, environment, script, (), out, err, stop_at)
        finally:
            os.close(out)
            os.close(err)
        stdout.flush()
        stderr.flush()
        return ended

    def end(self) -> None:
        """Kill what is left in the groups that were started, as the end of a container does."""
        for leader in self._leaders:
            _signal_group(leader, signal.SIGKILL)
            leader.wait()
        self._drain()

    def _run(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        fds: tuple[int, ...],
        stdout: int,
        stderr: int,
        stop_at: Callable[[], float],
    ) -> Ended:
        self._script.write(script)
        leader = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(SCRIPT_FD, *fds),
            start_new_session=True,
        )
        self._leaders.append(leader)
        kill_at = FOREVER
        while (ended := _ended(leader)) is None:
            now = time.monotonic()
            if kill_at == FOREVER and now >= stop_at():
                _signal_group(leader, signal.SIGTERM)
                kill_at = now + self._grace
            if now >= kill_at or self._stop.at_once:
                _signal_group(leader, signal.SIGKILL)
                kill_at = now + self._grace
            self._move(min(stop_at() if kill_at == FOREVER else FOREVER, kill_at) - now)
        self._drain()
        return ended

    def _pipe(self, sink: Sink) -> int:
        """The write end of a new pipe whose other end goes to `sink`."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._selector.register(read, selectors.EVENT_READ, sink)
        return write

    def _move(self, timeout: float) -> bool:
        """Wait for output, a signal or the time; hand on what is there. Whether any output was."""
        moved = False
        for key, _ in self._selector.select(None if timeout == FOREVER else max(timeout, 0)):
            try:
                data = os.read(key.fd, _CHUNK)
            except BlockingIOError:
                continue
            if key.data is None:
                continue
            if data:
                key.data.feed(data)
                moved = True
            else:
                self._selector.unregister(key.fd)
                os.close(key.fd)
        return moved

    def _drain(self) -> None:
        """Hand on what is in the pipes now, without waiting for those who hold them open."""
        until = time.monotonic() + self._grace
        while self._move(0) and time.monotonic() < until:
            pass

    def _wake_up(self) -> None:
        """Let signals, the end of a child among them, end a wait."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._selector.register(read, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)


def _ended(leader: subprocess.Popen[bytes]) -> Ended | None:
    """How it ended. It is left a zombie, so that its number still names its group at the end."""
    info = os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return Ended(info.si_status)
    return Ended(128 + info.si_status, info.si_status)


def _signal_group(leader: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, number)
