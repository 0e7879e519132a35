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
"""Seconds within which the next answer has to come."""

MOST_BYTES = 16 * 1024 * 1024
"""Of one answer."""
_MOST_BYTES_IN_ALL = 256 * 1024 * 1024

_BUFFER = 64 * 1024
_FLUSH_EVERY = 0.1
_LOOK_EVERY = 0.02


class NoAnswer(Exception):
    """What the process did instead of giving the next answer."""


class AnswerPipe:
    """The end of the pipe that the separate process writes to."""

    def __init__(self, pipe: int) -> None:
        self._pipe = os.fdopen(pipe, "wb", buffering=_BUFFER)
        self._owner = os.getpid()
        self._flush_at = 0.0

    def send(self, answer: str) -> None:
        """Send an answer, JSON in one line; not at once, if there may be more soon."""
        if os.getpid() != self._owner:  # the code has forked, and this is not the process that was asked
            os._exit(0)
        self._pipe.write(answer.encode() + b"\n")
        if time.monotonic() >= self._flush_at:
            self.flush()

    def flush(self) -> None:
        """Send now what there is, so that whoever reads it knows what comes next."""
        with contextlib.suppress(Exception):  # whatever the code has made of it
            sys.stderr.flush()
        self._pipe.flush()
        self._flush_at = time.monotonic() + _FLUSH_EVERY


class SeparateProcess:
    """A fork that does `work`, with the group of processes that come out of it.

    It has standard error as its standard output, no standard input, and leaves no core file. It is killed
    when this is closed, and when the process that made it is gone, however that went.
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
        """The next answer, which may be any JSON; raises `NoAnswer`."""
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
        """Kill what is left of it."""
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
        """How it has ended; it is not reaped, so that its id remains its own."""
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
    """What the process does; nothing that is called here can return into the code that has forked."""
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
    """Have the kernel kill this group when nobody has the other end of the pipe any more.

    Unlike the parent-death signal, this reaches the processes too that the code has started.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)
