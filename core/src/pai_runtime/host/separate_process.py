"""A separate process for code that may crash, hang or return anything: a fork that writes lines of JSON."""

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

LONGEST_CALL = 60
"""Timeout in seconds for the next answer."""

MOST_BYTES = 16 * 1024 * 1024
"""Maximum size of one answer."""
_MOST_BYTES_IN_ALL = 256 * 1024 * 1024

_BUFFER = 64 * 1024
_FLUSH_EVERY = 0.1
_LOOK_EVERY = 0.02


class NoAnswer(Exception):
    """The exception for a process that does not give the next answer; the text says what it did instead."""


class AnswerPipe:
    """The write end of the pipe for answers, in the separate process."""

    def __init__(self, pipe: int) -> None:
        self._pipe = os.fdopen(pipe, "wb", buffering=_BUFFER)
        self._owner = os.getpid()
        self._flush_at = 0.0

    def send(self, answer: str) -> None:
        """Send an answer, which is JSON on one line; it may be buffered for a moment."""
        if os.getpid() != self._owner:  # the code has forked, and this is not the process that was asked
            os._exit(0)
        self._pipe.write(answer.encode() + b"\n")
        if time.monotonic() >= self._flush_at:
            self.flush()

    def flush(self) -> None:
        """Send buffered answers now, so that the reader knows how far the process has come."""
        with contextlib.suppress(Exception):  # whatever the code has made of it
            sys.stderr.flush()
        self._pipe.flush()
        self._flush_at = time.monotonic() + _FLUSH_EVERY


class SeparateProcess:
    """A forked process that runs `work`, with its process group.

    It writes standard output to standard error, has no standard input, and leaves no core file. It is killed
    when this object is closed, and when its parent is gone for whatever reason.
    """

    def __init__(self, work: Callable[[AnswerPipe], None]) -> None:
        self._pipe, answers = os.pipe()
        lifeline, self._lifeline = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _do(work, answers, lifeline, parent, not_ours=(self._pipe, self._lifeline))
        for fd in (answers, lifeline):
            os.close(fd)
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._size = 0

    def receive(self) -> Any:
        """Return the next answer, which may be any JSON. Raises `NoAnswer` if none comes."""
        until = time.monotonic() + LONGEST_CALL
        while not self._lines:
            data = self._read(until)
            self._size += len(data)
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(whole)
            if len(self._rest) > MOST_BYTES or self._size > _MOST_BYTES_IN_ALL:
                raise NoAnswer("returned too much data")
        try:
            return json.loads(self._lines.popleft())
        except (ValueError, RecursionError):
            raise NoAnswer("returned an answer that is not JSON") from None

    def close(self) -> None:
        """Kill the process group."""
        for kill in (os.killpg, os.kill):  # at its very beginning it leads no group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._pipe)
        os.close(self._lifeline)

    def _read(self, until: float) -> bytes:
        answers = select.poll()  # not `select`, which knows no descriptor above 1023
        answers.register(self._pipe, select.POLLIN)
        while True:
            # In this order: what it wrote in time counts, and a fork of it may keep the pipe open.
            late, end = time.monotonic() >= until, self._end()
            if answers.poll(0 if late or end else _LOOK_EVERY * 1000):
                if data := os.read(self._pipe, _BUFFER):
                    return data
                time.sleep(0 if end else _LOOK_EVERY)  # it is ending, or the code in it has closed the pipe
            if end:
                raise NoAnswer(end)
            if late:
                raise NoAnswer(f"timed out after {LONGEST_CALL} s")

    def _end(self) -> str | None:
        """Return how the process ended, None if it has not; it is not reaped, so its id stays reserved."""
        try:
            found = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # whoever started us has us ignore SIGCHLD
            return "ended the process"
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return f"ended the process with exit code {found.si_status}"
        names = {each.value: each.name for each in signal.Signals}
        return f"was killed by {names.get(found.si_status, f'signal {found.si_status}')}"


def _do(
    work: Callable[[AnswerPipe], None], answers: int, lifeline: int, parent: int, not_ours: tuple[int, int]
) -> NoReturn:
    """Run `work` in the child process; never return into the code that has forked."""
    leave = os._exit
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would contain the secrets of a job
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        for fd in not_ours:
            os.close(fd)
        _end_with_parent(lifeline, parent)
        pipe = AnswerPipe(answers)
        work(pipe)
        pipe.flush()
        status = 0
    finally:
        leave(status)


def _end_with_parent(lifeline: int, parent: int) -> None:
    """Make the kernel kill this process group once nobody has the other end of the pipe open.

    Unlike the parent-death signal, this also reaches the processes that the code has started.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)
