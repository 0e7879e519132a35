"""The socket by which the supervisor of a task of this machine is asked to run a program there."""

import contextlib
import os
import socket

from pai_runtime.task.folder import Folder
from pai_runtime.task.session import SESSIONS

_WAITING = 128
"""Callers that are not heard yet."""


def listen(task: Folder) -> int | None:
    """A descriptor of the socket of a task, for its supervisor; None on a file system that has no sockets."""
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
    """A connection to the supervisor of a task.

    Raises OSError: ECONNREFUSED if there is none, EAGAIN if it does not listen to those who wait already.
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
    """Whether the supervisor of a task runs."""
    try:
        connect(task).close()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True
