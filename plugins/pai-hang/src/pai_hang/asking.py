"""Asking the watch of a task for the stacks of its processes.

Where ``kernel.yama.ptrace_scope`` is 1, only an ancestor may read them, and the watch is one. It listens on
a socket in the task's private directory, which is removed with the task and only its user may open. The
task's own processes are of this user: they may ask and never read, or listen there themselves.
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
_TAKES = 5.0
"""Seconds within which who asks has to take the answer."""
_ANSWERS_WITHIN = 60.0
_MOST_BYTES = 8 * 1024 * 1024
"""Seconds and bytes that an answer may take."""


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
    """Return the answer of a watch that is an ancestor of the command; empty if none is in bounds."""
    until = time.monotonic() + _BEGINS_WITHIN
    while _has_ancestor(supervisor) and time.monotonic() < until:
        with contextlib.suppress(OSError, KeyError), socket.socket(socket.AF_UNIX) as connection:
            with _path() as path:
                connection.connect(path)
            return _read(connection)
        time.sleep(_AGAIN)
    return ""


def _read(connection: socket.socket) -> str:
    """Return what is answered; empty if that is too much, or takes too long."""
    answer, until = bytearray(), time.monotonic() + _ANSWERS_WITHIN
    while (left := until - time.monotonic()) > 0 and len(answer) <= _MOST_BYTES:
        connection.settimeout(left)
        try:
            piece = connection.recv(_PIECE)
        except TimeoutError:
            break
        if not piece:
            return answer.decode("utf-8", "replace")
        answer += piece
    return ""


def _serve(listening: socket.socket, answer: Callable[[], str]) -> None:
    while True:
        try:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(_TAKES)
                connection.sendall(answer().encode())
        except Exception:  # noqa: BLE001 - whatever it was, the next question is to be answered
            time.sleep(_AGAIN)


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
