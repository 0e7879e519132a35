"""The supervisors of many tasks on another machine, forked by one process that has loaded all they need.

It is told what to do on its standard input: the secrets, as `pai_runtime.supervisor.piped` is, then lines
that are JSON arrays. ``["start", NUMBER, DIRECTORY, OPTIONS]`` starts the supervisor of a task, ``["stop",
NUMBER]`` tells it to stop, ``["kill", NUMBER]`` kills it; the end of the input tells all of them to stop. A
line ``NUMBER STATUS`` on its standard output tells that one has ended, with its wait status.

The arguments are the maximum number of tasks at a time, the CPUs of each, and a JSON object with values for
environment variables; only those that this process has are replaced.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import sys

from pai_runtime.supervisor.piped import read_secrets, supervise_piped
from pai_runtime.supervisor.process_tree import adopt_orphans, kill_children
from pai_runtime.supervisor.spawning import open_standard_streams
from pai_runtime.supervisor.supervisor import load_all
from pai_runtime.supervisor.wake_pipe import WakePipe
from pai_runtime.task.fast_json import loads
from pai_runtime.task.launch import LaunchOptions
from pai_runtime.task.own_process import keep_to_ourselves
from pai_runtime.task.signals import STOP_SIGNALS, signal

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
    group = _Group(read_secrets(), _shares(int(most), int(cpus)))
    os.environ.update({name: value for name, value in loads(variables).items() if name in os.environ})
    load_all()
    gc.collect()
    gc.freeze()  # collecting would touch, and so copy, all pages in each of the supervisors
    group.serve()
    return 0


def _shares(most: int, cpus: int) -> list[set[int]]:
    """Return the CPUs of each task that runs at a time; empty sets where there are not so many."""
    ours = sorted(os.sched_getaffinity(0))
    each = len(ours) // most
    if each < cpus:
        return [set[int]()] * most
    return [set(ours[at * each : (at + 1) * each]) for at in range(most)]


class _Group:
    """The supervisors that run, by process id and by number: each has a share of the CPUs, and a lifeline."""

    def __init__(self, secrets: bytes, shares: list[set[int]]) -> None:
        self._input = b"%d\n" % len(secrets) + secrets
        self._shares = shares
        self._pids: dict[int, int] = {}
        self._running: dict[int, tuple[int, int, set[int]]] = {}  # number, lifeline, share
        self._wake = WakePipe()
        self._has_input = True

    def serve(self) -> None:
        left = b""
        while self._has_input or self._running:
            woken = select.poll()
            for fd in (self._wake.fd, *([0] if self._has_input else [])):
                woken.register(fd, select.POLLIN)
            ready = [fd for fd, _ in woken.poll()]
            self._wake.clear()
            self._reap()
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
        self._running[pid] = number, lifeline, share
        if not self._has_input or signal.sigpending() & {*STOP_SIGNALS}:
            self._tell(pid)  # which was not there yet when all were told

    def _forked(self, share: set[int], where: str, options: str) -> tuple[int, int]:
        """Fork a supervisor; return its process id and its lifeline, which begins with the secrets."""
        read, lifeline = os.pipe()
        try:
            fcntl.fcntl(lifeline, fcntl.F_SETPIPE_SZ, max(len(self._input), _PIECE))
            os.write(lifeline, self._input)
            pid = os.fork()
        except OSError:
            os.close(lifeline)
            raise
        else:
            if pid == 0:
                for fd in (lifeline, *(other for _, other, _ in self._running.values() if other >= 0)):
                    os.close(fd)
                self._wake.close()
                _become(read, share, where, options)
        finally:
            os.close(read)
        return pid, lifeline

    def _tell(self, pid: int) -> None:
        """Tell a supervisor to stop."""
        number, lifeline, share = self._running[pid]
        if lifeline >= 0:
            os.close(lifeline)
            self._running[pid] = number, -1, share

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._running:
                self._tell(pid)
                number, _, share = self._running.pop(pid)
                del self._pids[number]
                if os.WIFSIGNALED(status):
                    kill_children(but=self._running)  # what the killed supervisor left behind
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
        code = supervise_piped(where, LaunchOptions.from_argument(options))
    except BaseException:  # noqa: BLE001 - see above
        try:
            import traceback  # noqa: PLC0415 - hardly ever needed

            traceback.print_exc()
        except BaseException:  # noqa: BLE001, S110 - there is nobody left to tell
            pass
    finally:
        os._exit(code)
