"""The socket by which a local task's supervisor is asked to run a program in the task."""

import contextlib
import os
import socket

from pai_runtime.task.folder import Folder
from pai_runtime.task.session import SESSIONS

_WAITING = 128
"""Maximum number of waiting connections."""


def listen(task: Folder) -> int | None:
    """Listen on the socket of a task, and return its descriptor; None if the file system has no sockets."""
    # By way of the descriptor: a socket's path must be short.
    path = f"{task.descriptor}/{SESSIONS}"
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listening:
        task.remove(SESSIONS)  # left by a supervisor that was killed
        before = os.umask(0o177)
        try:
            listening.bind(path)
        except OSError:
            return None
        finally:
            os.umask(before)
        listening.listen(_WAITING)
        return listening.detach()


def connect(task: Folder) -> socket.socket:
    """Connect to the supervisor of a task.

    Raises OSError: ECONNREFUSED if there is none, EAGAIN if too many callers are waiting.
    """
    # A link that a task has put there leads nowhere.
    fd = os.open(SESSIONS, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=task.fd)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
