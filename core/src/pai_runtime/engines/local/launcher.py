"""Start of tasks' supervisors by requests to a fork server.

A supervisor is forked from a *fork server*, a process of its own that has all of its code loaded and nothing
else: that costs a tenth of the start of an interpreter, in time as in memory. The fork server makes it a
child of the engine, which waits for it and whose end the kernel tells it, as if the engine had forked it.

What a supervisor is to know, secrets among it, is in files without names that only it reads.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from struct import Struct
from typing import Any

from pai_runtime.engines.local.environment import local_environment
from pai_runtime.engines.local.launch import Launch
from pai_task.folder import Folder
from pai_task.interpreter import python_argv
from pai_task.signals import STOP_SIGNALS

MOST_ANSWER = 4096
"""Maximum bytes of an answer of the fork server."""

_FORK_SERVER = "pai_runtime.engines.local.fork_server"
_LOWEST_FD = 10
"""The lowest inherited descriptor, above the standard streams and that of the supervisor's script."""
_ANSWERS_WITHIN = 60.0
_CREDENTIALS = Struct("3i")
"""Process, user and group of who sends a message."""
_IS_GONE = "the process that starts tasks has died"


class Launcher:
    """A launcher of supervisors by a fork server, which is started early, and again if it is gone.

    On kernels that cannot make supervisors the engine's children, each fork server becomes one supervisor
    itself.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._connection: socket.socket | None = None

    def start(self) -> None:
        """Start the fork server unless it runs; it takes a moment to be ready. Raises OSError."""
        if self._connection is not None:
            return
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its, _ourselves() as ourselves:
            inherited = [fcntl.fcntl(fd, fcntl.F_DUPFD, _LOWEST_FD) for fd in (its.fileno(), *ourselves)]
            try:
                argv = python_argv(_FORK_SERVER, *map(str, inherited))
                null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
                # Blocked in every supervisor until it can listen: none is lost, and the first process of a
                # namespace would ignore what it has no handler for.
                self.pid = os.posix_spawn(
                    argv[0], argv, local_environment(()), file_actions=[null], setsigmask=STOP_SIGNALS
                )
            finally:
                for fd in inherited:
                    os.close(fd)
        ours.settimeout(_ANSWERS_WITHIN)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._connection = ours

    def launch(self, what: Launch, folder: Folder, secrets: Mapping[str, str]) -> int:
        """Start a supervisor, and return its process id. Raises OSError."""
        with _in_memory(asdict(what)) as request, _in_memory(dict(secrets)) as values:
            namespaces = what.isolated.namespaces if what.isolated else 0
            pid, answer = self._ask(namespaces, [request, folder.fd, values])
        if "error" in answer:
            raise OSError(*answer["error"])
        if pid == self.pid:  # it has become the supervisor
            self._let_go()
        return pid

    def close(self) -> None:
        """Let the fork server end, and wait for it."""
        pid = self.pid
        self._let_go()
        if pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _ask(self, namespaces: int, fds: list[int]) -> tuple[int, dict[str, Any]]:
        """Return the answer and its sender's process id: the supervisor's, on failure the fork server's."""
        try:
            return self._ask_once(namespaces, fds)
        except (BrokenPipeError, ConnectionResetError):  # somebody has ended it: nothing has begun
            return self._ask_once(namespaces, fds)

    def _ask_once(self, namespaces: int, fds: list[int]) -> tuple[int, dict[str, Any]]:
        try:
            self._send(namespaces, fds)
            answer, pid = self._receive()
        except (BrokenPipeError, ConnectionResetError):
            self._let_go()
            raise
        except OSError:
            self._give_up()
            raise
        given: dict[str, Any] = json.loads(answer)
        return pid, given

    def _receive(self) -> tuple[bytes, int]:
        """Return an answer, and its sender's process id as the kernel gives it in our namespace."""
        if self._connection is not None:
            answer, (*credentials,), _, _ = self._connection.recvmsg(
                MOST_ANSWER, socket.CMSG_SPACE(_CREDENTIALS.size)
            )
            if answer and credentials:
                pid: int = _CREDENTIALS.unpack(credentials[0][2])[0]
                return answer, pid
        raise ConnectionResetError(0, _IS_GONE)

    def _send(self, namespaces: int, fds: list[int]) -> None:
        self.start()
        if self._connection is not None:
            socket.send_fds(self._connection, [str(namespaces).encode()], fds)

    def _give_up(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._let_go()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self.pid = None


@contextlib.contextmanager
def _ourselves() -> Iterator[list[int]]:
    """Yield a pidfd of this process, which is readable once it is gone; none if the kernel has no pidfds."""
    try:
        fds = [os.pidfd_open(os.getpid())]
    except OSError:
        fds = []
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


@contextlib.contextmanager
def _in_memory(document: Any) -> Iterator[int]:
    """Yield the descriptor of an anonymous file that contains a JSON document."""
    fd = os.memfd_create("pai-runtime")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", closefd=False) as file:
            json.dump(document, file)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
