"""The question to the watch where the processes of its task are, which only an ancestor of them may answer.

It is that where ``kernel.yama.ptrace_scope`` is 1. It listens on a socket in the task's private directory,
which does not outlive the task, and is for its user alone.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pai_hang.processes import is_copy, is_watch, tree

_SOCKET = "stacks"
_BEGINS_WITHIN = 10.0
"""Seconds after which a watch that is told to begin surely listens."""
_AGAIN = 0.05
_PIECE = 1 << 16


def answer_each(answer: Callable[[], str]) -> None:
    """Answer all questions from now on, in a thread; none if the task's directory cannot have sockets."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        with _path() as path:
            Path(path).unlink(missing_ok=True)
            before = os.umask(0o177)
            try:
                listening.bind(path)
            finally:
                os.umask(before)
        listening.listen()
    except (OSError, KeyError):
        listening.close()
        return
    threading.Thread(target=_serve, args=(listening, answer), daemon=True).start()


def ask(supervisor: int) -> str:
    """Return the answer of a watch that is an ancestor of the command; empty if there is none."""
    until = time.monotonic() + _BEGINS_WITHIN
    while _has_ancestor(supervisor) and time.monotonic() < until:
        with contextlib.suppress(OSError, KeyError), socket.socket(socket.AF_UNIX) as connection:
            with _path() as path:
                connection.connect(path)
            return b"".join(iter(lambda: connection.recv(_PIECE), b"")).decode("utf-8", "replace")
        time.sleep(_AGAIN)
    return ""


def _serve(listening: socket.socket, answer: Callable[[], str]) -> None:
    while True:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):  # whoever asked may have gone
            connection.sendall(answer().encode())


def _has_ancestor(supervisor: int) -> bool:
    """Return whether the command has a parent that is a watch, or will become it."""
    processes = tree(supervisor)
    parents = {process.parent for process in processes}
    children = {process.pid for process in processes if process.parent == supervisor}
    return any(is_copy(pid, supervisor) or is_watch(pid) for pid in children & parents)


@contextlib.contextmanager
def _path() -> Iterator[str]:
    """Yield a path of the socket: by way of a descriptor, since that of a socket must be short."""
    fd = os.open(os.path.dirname(os.environ["PAI_MASK"]), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
    try:
        yield f"/proc/self/fd/{fd}/{_SOCKET}"
    finally:
        os.close(fd)
