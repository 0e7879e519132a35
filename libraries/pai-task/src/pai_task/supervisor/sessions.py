"""Programs that people run in a task from outside, beside its command (`pai_task.session`).

Each is a process of the task like any other: it sees what they see, and ends with the task at the latest.
What it reads and writes is its caller's, and comes into no log.
"""

from __future__ import annotations

import os
import termios  # noqa: F401 - needed where a process begins, when an isolated task may have changed the file
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, MSG_CTRUNC, MSG_TRUNC, socket

from pai_task.exit_codes import NOT_EXECUTED, NOT_FOUND
from pai_task.fast_json import dumps, loads
from pai_task.session import MOST_MESSAGE, STREAMS
from pai_task.signals import signal
from pai_task.supervisor.shell import which
from pai_task.supervisor.spawning import CannotStart, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pai_task.supervisor.loop import Child, ExitStatus, Loop

_INT = 4
"""Size of a file descriptor in a message."""


class Sessions:
    """A server on a listening socket; `environment` returns the variables of the programs that it starts.

    `before` is called before each start.
    """

    def __init__(
        self,
        fd: int,
        loop: Loop,
        environment: Callable[[], Mapping[str, str]],
        shell: str,
        before: Callable[[], None],
    ) -> None:
        self._socket = socket(fileno=fd)
        self._socket.setblocking(False)  # noqa: FBT003 - positional only
        self.loop = loop
        self.environment = environment
        self.shell = shell
        self.before = before
        loop.watch(fd, self._accept)

    def _accept(self) -> None:
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - all that `socket.accept` calls
        except OSError:
            return  # the caller has gone, or no more files may be open
        _Session(self, socket(fileno=fd))


class _Session:
    def __init__(self, sessions: Sessions, connection: socket) -> None:
        self._sessions = sessions
        self._connection = connection
        self._child: Child | None = None
        connection.setblocking(False)  # noqa: FBT003 - positional only
        sessions.loop.watch(connection.fileno(), self._hear)

    def _hear(self) -> None:
        fds: list[int] = []
        try:
            data, ancillary, flags, _ = self._connection.recvmsg(
                MOST_MESSAGE, CMSG_SPACE(STREAMS * _INT), MSG_CMSG_CLOEXEC
            )
            for _, _, some in ancillary:
                fds += memoryview(some[: len(some) // _INT * _INT]).cast("i")
            if not data:
                self._hang_up()
            else:
                self._heed(data if not flags & (MSG_TRUNC | MSG_CTRUNC) else b"", fds)
        except BlockingIOError:
            pass
        except Exception as error:  # noqa: BLE001 - no message ends a supervisor, whatever is wrong with it
            self._answer({"exitCode": NOT_EXECUTED, "message": f"invalid request: {error!r}"})
            self._hang_up()
        finally:
            for fd in fds:
                os.close(fd)

    def _heed(self, data: bytes, fds: list[int]) -> None:
        message = loads(data)
        if self._child is None:
            self._start(message, fds)
        else:
            self._child.signal_group(message["signal"])

    def _start(self, message: Any, fds: list[int]) -> None:
        argv = [str(word) for word in message["argv"]] or [self._sessions.shell]
        environment = {**self._sessions.environment(), **message["variables"]}
        stdin, stdout, stderr = fds
        program = argv[0] if "/" in argv[0] else which(argv[0], environment.get("PATH", os.defpath))
        if program is None or not os.path.lexists(program):
            self._end({"exitCode": NOT_FOUND, "message": f"{argv[0]}: there is no such program in the task"})
            return
        self._sessions.before()
        try:
            self._child = self._sessions.loop.spawn(
                Program(
                    [program, *argv[1:]], environment, None, stdin=stdin, terminal=message["terminal"] is True
                ),
                stdout,
                stderr,
                self._ended,
            )
        except CannotStart as error:
            self._end({"exitCode": NOT_EXECUTED, "message": str(error)})

    def _ended(self, ended: ExitStatus) -> None:
        self._child = None
        self._end({"exitCode": ended.code})

    def _hang_up(self) -> None:
        """Send SIGHUP to the program of a caller that is gone; one that ignores it runs on."""
        if self._child is not None:
            self._child.signal_group(signal.SIGHUP)
            self._child.signal_group(signal.SIGCONT)
            self._child.on_end = None
        self._close()

    def _end(self, answer: Mapping[str, Any]) -> None:
        self._answer(answer)
        self._close()

    def _answer(self, answer: Mapping[str, Any]) -> None:
        try:
            self._connection.send(dumps(answer).encode())
        except OSError:
            pass  # nobody waits for it

    def _close(self) -> None:
        self._sessions.loop.unwatch(self._connection.fileno())
        self._connection.close()
