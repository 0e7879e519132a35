"""Starting tasks' supervisors: launch options, and the requests to the fork server.

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
from dataclasses import asdict, dataclass, field
from struct import Struct
from typing import Any

from pai_runtime.engines.local.environment import local_environment
from pai_runtime.engines.local.isolation import Bind, Isolated
from pai_runtime.supervisor.stop import STOP_SIGNALS
from pai_runtime.task.folder import Folder
from pai_runtime.task.interpreter import python_argv

MOST_ANSWER = 4096
"""Bytes of what a fork server says."""

_FORK_SERVER = "pai_runtime.engines.local.fork_server"
_LOWEST_FD = 10
"""What is inherited keeps clear of the standard streams, and of where the supervisor has its script."""
_ANSWERS_WITHIN = 60.0
_CREDENTIALS = Struct("3i")
"""Process, user and group of who sends a message."""
_IS_GONE = "the process that starts tasks has died"


@dataclass(frozen=True)
class Launch:
    """A supervisor of the task in `folder`, with its launch options and the variables that it begins with.

    `silent`: what the task says goes to its logs only.
    """

    folder: str
    environment: Mapping[str, str] = field(repr=False)
    options: str
    silent: bool = False
    isolated: Isolated | None = None

    @classmethod
    def from_json(cls, text: bytes) -> "Launch":
        """What `asdict` has made of one."""
        given = json.loads(text)
        if isolated := given["isolated"]:
            storage = [Bind(**bind) for bind in isolated["storage"]]
            given["isolated"] = Isolated(**{**isolated, "storage": storage})
        return cls(**given)


class Launcher:
    """Starts supervisors, by a fork server that is started in time, and anew if it is gone.

    Where the kernel knows no way to make them the engine's children, a fork server becomes a supervisor
    itself, once.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._connection: socket.socket | None = None

    def start(self) -> None:
        """Start the fork server, which takes a moment to be ready, unless it is there; raises OSError."""
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
        """Start a supervisor; its process id. Raises OSError."""
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
        """What is answered, and the process that answers: the supervisor, or the fork server if it cannot."""
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
        """An answer, and who gives it, as the kernel says in numbers of our own namespace."""
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
    """A descriptor that can be read once this process is gone; none where the kernel has no such thing."""
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
    """A file without a name that has a JSON document."""
    fd = os.memfd_create("pai-runtime")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", closefd=False) as file:
            json.dump(document, file)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
