"""The socket by which a supervisor is asked to run a program in its task (`pai_task.session`)."""

from __future__ import annotations

import _socket
import os
from _socket import AF_UNIX, SOCK_SEQPACKET, SOL_SOCKET
from array import array

from pai_task.exit_codes import MOST_CODE
from pai_task.fast_json import dumps, loads
from pai_task.session import MOST_MESSAGE, SESSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from pai_task.folder import Folder

_WAITING = 128
"""Maximum number of waiting connections."""
_SCM_RIGHTS = 1
"""The type of a message with open files, which not every build of `_socket` has a name for."""


def listen(task: Folder, mode: int = 0o600) -> int | None:
    """Listen on the socket of a task, and return its descriptor; None if the file system has no sockets.

    `mode` has its permissions: who may write to it can run programs in the task.
    """
    # By way of the descriptor: a socket's path must be short.
    path = f"{task.descriptor}/{SESSIONS}"
    listening = _socket.socket(AF_UNIX, SOCK_SEQPACKET)
    before = os.umask(0o777 & ~mode)
    try:
        task.remove(SESSIONS)  # left by a supervisor that was killed
        listening.bind(path)
        listening.listen(_WAITING)
    except OSError:
        listening.close()
        return None
    finally:
        os.umask(before)
    return listening.detach()


def connect(task: Folder) -> socket.socket:
    """Connect to the supervisor of a task.

    Raises OSError: ECONNREFUSED if there is none, EAGAIN if too many callers are waiting.
    """
    import socket  # noqa: PLC0415 - not for who listens, since a supervisor starts faster without

    # A link that a task has put there leads nowhere.
    fd = os.open(SESSIONS, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=task.fd)
    connection = socket.socket(AF_UNIX, SOCK_SEQPACKET)
    try:
        connection.settimeout(0)
        connection.connect(f"/proc/self/fd/{fd}")
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    finally:
        os.close(fd)
    return connection


def is_alive(task: Folder) -> bool:
    """Return whether the supervisor of a task runs."""
    try:
        connect(task).close()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def ask(
    connection: socket.socket,
    argv: Sequence[str],
    streams: Sequence[int],
    *,
    terminal: bool,
    variables: Mapping[str, str],
) -> None:
    """Have a program run with these standard streams. Raises `ValueError` if its command line is too long."""
    message = dumps({"argv": list(argv), "terminal": terminal, "variables": dict(variables)}).encode()
    if len(message) > MOST_MESSAGE:
        raise ValueError(f"the command is longer than {MOST_MESSAGE} bytes")
    connection.sendmsg([message], [(SOL_SOCKET, _SCM_RIGHTS, array("i", streams))])


def read_answer(answer: bytes) -> tuple[int, str | None]:
    """Return the exit status in an answer, which the task may have forged, and why there was no program.

    Raises `ValueError` if it is invalid.
    """
    try:
        said = loads(answer)
        code, message = int(said["exitCode"]) & MOST_CODE, said.get("message")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError("its supervisor gave an invalid answer") from None
    return code, None if message is None else str(message)
