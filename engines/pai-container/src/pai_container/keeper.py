"""The keeper of a task's container: it runs the init steps, then the container, and leaves nothing of it.

It is the engine's child in the place of a supervisor: it ends with the exit code of the task, and is told to
stop by the same signals. When the engine is gone it stops the task too, and the last one removes the network.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pai_container.client import said
from pai_container.launcher import LOCK_FD, REQUEST_FD, Request
from pai_pod.engine import Handover, hand_over, open_to_all
from pai_runtime.engine.local import (
    LOGS,
    RECORD,
    STOP_SIGNALS,
    Folder,
    LaunchOptions,
    adopt_orphans,
    cannot_run,
    end_with_parent,
    hook_argv,
    keep_to_ourselves,
    killed_by,
    python_argv,
)

_AGAIN: Final = 0.2
"""Seconds until a container that is not there yet is told again to stop."""
_WITHIN: Final = 60.0
_MOST_SAID: Final = 16 * 1024
_NOT_STARTED: Final = (125, 126, 127)
"""What Podman and Docker end with if they cannot start a container; a task may end with these as well."""
_MOST_CODE: Final = 255


def main() -> int:
    """Keep the container of one task, and return the task's exit code."""
    with os.fdopen(REQUEST_FD, "rb") as file:
        request = Request.from_json(file.read())
    os.set_inheritable(LOCK_FD, False)  # noqa: FBT003 - positional only
    signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, signal.SIGCHLD))
    end_with_parent(signal.SIGTERM)
    adopt_orphans()
    keep_to_ourselves()
    keeper = _Keeper(request)
    try:
        return keeper.keep()
    finally:
        keeper.clean_up()


class _Keeper:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._stops = 0 if os.getppid() == request.parent else 1
        self._is_left = request.is_again

    def keep(self) -> int:
        if self._is_left:
            self._call(self._request.remove)
            self._is_left = False
        with Folder.at(self._request.folder) as folder:
            if self._request.has_init:
                self._run_init()
            logs, request = f"{folder.where}/{LOGS}", self._request
            hand_over(folder, Handover(logs, request.secrets, options=request.options))
            open_to_all(folder)
            return self._run_container(folder)

    def clean_up(self) -> None:
        request = self._request
        if self._is_left:
            self._call(request.remove)
        if _has_files_of_others(Path(request.folder)):
            self._call(request.owner)
        if os.getppid() != request.parent:
            self._call(request.remove_network)  # which fails while other containers are in it

    def _run_init(self) -> None:
        """Run the init steps; what fails is recorded, and the container then ends the task."""
        values = os.memfd_create("pai-runtime", 0)
        os.write(values, json.dumps(self._request.secrets).encode())
        os.lseek(values, 0, os.SEEK_SET)
        options = LaunchOptions(phases="init", secrets_fd=values, hook_argv=hook_argv())
        argv = python_argv("pai_task.supervisor.__main__", self._request.folder, options.to_argument())
        pid = os.posix_spawn(argv[0], argv, os.environ, setsigmask=[])
        os.close(values)
        self._wait(pid, lambda: _told(pid))

    def _run_container(self, folder: Folder) -> int:
        request = self._request
        stderr = os.memfd_create("pai-runtime")
        files = [(os.POSIX_SPAWN_DUP2, stderr, 2)]
        pid = os.posix_spawn(request.run[0], request.run, os.environ, file_actions=files, setsigmask=[])
        status = self._wait(pid, lambda: self._call(request.stop))
        code = os.waitstatus_to_exitcode(status)
        self._is_left = code < 0 or code in _NOT_STARTED
        if self._is_left and not folder.exists(RECORD):
            if self._stops:
                return killed_by(signal.SIGTERM)  # the engine records that the task was cancelled
            text = said(os.pread(stderr, _MOST_SAID, max(0, os.fstat(stderr).st_size - _MOST_SAID)))
            return cannot_run(folder, f"cannot start the container: {text}", LaunchOptions())
        return code if code >= 0 else _MOST_CODE

    def _wait(self, pid: int, stop: Callable[[], bool]) -> int:
        """Wait for a child, and return its wait status; `stop` tells it to end, and returns if it could."""
        told = 0
        while True:
            timeout = _AGAIN if told < self._stops else _WITHIN
            found = signal.sigtimedwait((*STOP_SIGNALS, signal.SIGCHLD), timeout)
            if found is not None and found.si_signo != signal.SIGCHLD:
                self._stops += 1
            while (reaped := _reaped()) is not None:
                if reaped[0] == pid:
                    return reaped[1]
            if told < self._stops and stop():
                told += 1

    def _call(self, argv: Sequence[str]) -> bool:
        try:
            done = subprocess.run(
                argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=_WITHIN, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


def _told(pid: int) -> bool:
    os.kill(pid, signal.SIGTERM)
    return True


def _reaped() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _has_files_of_others(folder: Path) -> bool:
    user = os.geteuid()
    return any(
        Path(above, name).lstat().st_uid != user
        for above, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )
