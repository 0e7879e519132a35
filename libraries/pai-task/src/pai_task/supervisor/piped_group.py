"""The supervisors of many tasks on another machine, forked by one process that has loaded all they need.

It is told what to do on its standard input: the secrets, as `pai_task.supervisor.piped` is, then lines
that are JSON arrays. ``["start", NUMBER, DIRECTORY, OPTIONS]`` starts the supervisor of a task, ``["stop",
NUMBER]`` tells it to stop, ``["kill", NUMBER]`` kills it; the end of the input tells all of them to stop. A
line ``NUMBER STATUS`` on its standard output tells that one has ended, with its wait status.

The arguments are the maximum number of tasks at a time, the CPUs of each, and a JSON object with values for
environment variables; only those that this process has are replaced.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time

from pai_task.fast_json import loads
from pai_task.launch import LaunchOptions
from pai_task.own_process import keep_to_ourselves
from pai_task.record import replace
from pai_task.signals import STOP_SIGNALS, signal
from pai_task.supervisor.cpu_shares import cpu_shares
from pai_task.supervisor.piped import supervise_piped
from pai_task.supervisor.piped_secrets import read_secrets, write_secrets
from pai_task.supervisor.process_tree import (
    GONE_EVERY,
    GONE_WITHIN,
    adopt_orphans,
    kill_children,
    reaped,
)
from pai_task.supervisor.spawning import open_standard_streams
from pai_task.supervisor.supervisor import load_all
from pai_task.supervisor.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PIECE = 65536
_FAILED = 1


def main() -> int:
    """Serve until the input has ended, and so has the last task. Raises OSError, ValueError and EOFError."""
    most, cpus, variables = sys.argv[1:]
    open_standard_streams()
    # A signal to the whole step reaches each supervisor directly; supervisors unblock these signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    adopt_orphans()
    keep_to_ourselves()
    group = _Group(read_secrets(), cpu_shares(int(most), int(cpus)))
    os.environ.update({name: value for name, value in loads(variables).items() if name in os.environ})
    load_all()
    gc.collect()
    gc.freeze()  # collecting would touch, and so copy, all pages in each of the supervisors
    group.serve()
    return 0


class _Group:
    """The supervisors that run, by process id and by number: each has a share of the CPUs, and a lifeline."""

    def __init__(self, secrets: bytes, shares: list[set[int]]) -> None:
        self._secrets = secrets
        self._shares = shares
        self._pids: dict[int, int] = {}
        self._running: dict[int, tuple[int, set[int]]] = {}  # number, share
        self._lifelines: dict[int, int] = {}
        self._killed: list[tuple[int, set[int], int, float]] = []  # number, share, wait status, until when
        self._wake = WakePipe()
        self._has_input = True

    def serve(self) -> None:
        left = b""
        while self._has_input or self._running or self._killed:
            woken = select.poll()
            for fd in (self._wake.fd, *([0] if self._has_input else [])):
                woken.register(fd, select.POLLIN)
            ready = [fd for fd, _ in woken.poll(GONE_EVERY * 1000 if self._killed else None)]
            self._wake.clear()
            self._reap()
            self._clear_up()
            if 0 in ready:
                piece = os.read(0, _PIECE)
                self._has_input = bool(piece)
                *lines, left = (left + piece).split(b"\n")
                for line in lines:
                    self._do(*loads(line))
                if not piece:
                    for pid in self._running:
                        self._tell(pid)

    def _do(self, what: str, number: int, *of_task: str) -> None:
        if what == "start":
            self._start(number, *of_task)
        elif number in self._pids and what == "kill":
            os.kill(self._pids[number], signal.SIGKILL)
        elif number in self._pids:
            self._tell(self._pids[number])

    def _start(self, number: int, where: str, options: str) -> None:
        share = self._shares.pop()
        try:
            pid, lifeline = self._forked(share, where, options)
        except OSError as error:  # as where a user may not have so many processes
            os.write(2, f"cannot start {where}: {error.strerror}\n".encode())
            self._say_ended(number, share, _FAILED << 8)
            return
        self._pids[number] = pid
        self._running[pid] = number, share
        self._lifelines[pid] = lifeline
        if not self._has_input or signal.sigpending() & {*STOP_SIGNALS}:
            self._tell(pid)  # which was not there yet when all were told

    def _forked(self, share: set[int], where: str, options: str) -> tuple[int, int]:
        """Fork a supervisor; return its process id and its lifeline, which begins with the secrets."""
        read, lifeline = os.pipe()
        try:
            write_secrets(lifeline, self._secrets)
            pid = os.fork()
        except OSError:
            os.close(lifeline)
            raise
        else:
            if pid == 0:
                for fd in (lifeline, *self._lifelines.values()):
                    os.close(fd)
                self._wake.close()
                _become(read, share, where, options)
        finally:
            os.close(read)
        return pid, lifeline

    def _tell(self, pid: int) -> None:
        """Tell a supervisor to stop."""
        lifeline = self._lifelines.pop(pid, None)
        if lifeline is not None:
            os.close(lifeline)

    def _reap(self) -> None:
        for pid, status in reaped():
            if pid in self._running:
                self._tell(pid)
                number, share = self._running.pop(pid)
                del self._pids[number]
                if os.WIFSIGNALED(status):
                    self._killed.append((number, share, status, time.monotonic() + GONE_WITHIN))
                else:
                    self._say_ended(number, share, status)

    def _clear_up(self) -> None:
        """Kill all processes that killed supervisors would have ended, and tell the ends of these after it.

        These processes come to us, and what they leave comes to us in turn.
        """
        if not self._killed:
            return
        left = kill_children(but=self._running)
        killed, self._killed = self._killed, []
        for number, share, status, until in killed:
            if left and time.monotonic() < until:
                self._killed.append((number, share, status, until))
            else:
                self._say_ended(number, share, status)

    def _say_ended(self, number: int, share: set[int], status: int) -> None:
        self._shares.append(share)
        os.write(1, b"%d %d\n" % (number, status))


def _become(lifeline: int, share: set[int], where: str, options: str) -> NoReturn:
    """Turn a forked child into a supervisor; never return into the code of the group."""
    code = _FAILED
    try:
        os.setsid()
        if share:
            os.sched_setaffinity(0, share)
        os.dup2(lifeline, 0)
        os.close(lifeline)
        code = supervise_piped(where, replace(LaunchOptions.from_argument(options), shares_memory=True))
    except BaseException:  # noqa: BLE001 - see above
        try:
            import traceback  # noqa: PLC0415 - hardly ever needed

            traceback.print_exc()
        except BaseException:  # noqa: BLE001, S110 - there is nobody left to tell
            pass
    finally:
        os._exit(code)
