"""The fork server: the process from which every supervisor of a run is forked.

It is started by a `Launcher`, has loaded what a supervisor needs, and has one thread, no secret, and no open
file but its connection. Whatever it forks has all of that for itself: nothing of a task ever comes back.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from pai_runtime.engines.local.isolation import Isolation
from pai_runtime.engines.local.launch import Launch
from pai_runtime.engines.local.namespaces import CLONE_PARENT, Refused, clone
from pai_runtime.engines.local.runtime_copy import look_up_paths, run_from_copy, runtime_binds
from pai_task.folder import Folder
from pai_task.interpreter import hook_argv
from pai_task.launch import LaunchOptions
from pai_task.layout import RUNTIME
from pai_task.memfd import hand_over_script
from pai_task.own_process import keep_to_ourselves
from pai_task.record import replace
from pai_task.session_socket import listen
from pai_task.supervisor.process_tree import end_with_parent
from pai_task.supervisor.recording import cannot_run
from pai_task.supervisor.supervisor import load_all, supervise

_STANDARD = (0, 1, 2)
_REQUEST = 64
"""Maximum bytes of a request; its content is in the files that come with it."""
_FILES = 3
_FAILED = 1


def main() -> int:
    """Serve until the engine closes the connection; the arguments are descriptors of it and the engine."""
    connection, *engine = map(int, sys.argv[1:])
    end_with_parent()
    keep_to_ourselves()
    os.setsid()  # a key that is pressed is for the engine
    _close_all_but(*_STANDARD, connection, *engine)
    hand_over_script(b"")  # takes its place among the open files before anything else does
    load_all()
    look_up_paths()
    gc.collect()
    gc.freeze()  # collecting would touch, and so copy, all pages in each of the supervisors
    with socket.socket(fileno=connection) as opened:
        while True:
            data, fds, _, _ = socket.recv_fds(opened, _REQUEST, _FILES, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return 0
            _serve(opened, engine, int(data), fds)


def _serve(connection: socket.socket, engine: list[int], namespaces: int, fds: list[int]) -> None:
    try:
        pid = clone(namespaces | CLONE_PARENT)
    except OSError as error:
        pid = 0
        if namespaces or not isinstance(error, Refused):
            pid = -1
            answer = {"error": [error.errno, error.strerror, error.filename]}
            connection.send(json.dumps(answer).encode())
    if pid == 0:
        _become(connection, engine, *fds)
    for fd in fds:
        os.close(fd)


def _become(connection: socket.socket, engine: list[int], *fds: int) -> NoReturn:
    """Turn a forked child into a supervisor; never return into the code of the fork server."""
    code = _FAILED
    try:
        with contextlib.suppress(PermissionError):  # it leads one already
            os.setsid()
        end_with_parent(signal.SIGTERM)
        if _is_told(connection) and not _is_gone(engine):  # else it was gone before the kernel knew
            code = _supervise(*fds)
    except BaseException:  # noqa: BLE001 - see above
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def _is_told(connection: socket.socket) -> bool:
    """Register this process with the engine; doing so itself leaves no moment in which it runs unknown."""
    with connection:
        try:
            connection.send(b"{}")
        except OSError:
            return False
    return True


def _is_gone(engine: list[int]) -> bool:
    gone = select.poll()
    for fd in engine:
        gone.register(fd, select.POLLIN)
    is_gone = bool(gone.poll(0))
    for fd in engine:
        os.close(fd)
    return is_gone


def _supervise(request: int, folder: int, secrets: int) -> int:
    with os.fdopen(request, "rb") as file:
        launch = Launch.from_json(file.read())
    own = Folder(folder, Path(launch.folder))
    pid = int(Path("/proc/self").readlink().name)  # as the engine's own namespace has it
    options = replace(
        LaunchOptions.from_argument(launch.options), secrets_fd=secrets, pid=pid, sessions_fd=listen(own)
    )
    os.environ.clear()
    os.environ.update(launch.environment)
    if launch.silent:
        for fd in _STANDARD:
            os.dup2(0, fd)
    if launch.isolated is not None:
        binds = runtime_binds(Path(os.path.realpath(own.path)) / RUNTIME)
        try:
            Isolation(own.path, launch.isolated, binds).enter()
        except OSError as error:
            what = f"cannot set up the task: {error.filename or 'its process'}: {error.strerror}"
            return cannot_run(own, what, options)
        run_from_copy()
    return supervise(own, replace(options, hook_argv=hook_argv()))


def _close_all_but(*fds: int) -> None:
    """Close all descriptors but these: what our caller has left open is not for the tasks."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - fewer objects in each supervisor
        if int(name) not in fds:
            with contextlib.suppress(OSError):
                os.close(int(name))
