"""The supervisor of a task on another machine, for an engine that is tied to it by its standard input alone.

That has the secrets, and is then left open: its end tells the task to stop. Arguments are the task's
directory and launch options.
"""

from __future__ import annotations

import os
import sys

from pai_task.folder import Folder
from pai_task.interpreter import hook_argv
from pai_task.launch import LaunchOptions
from pai_task.record import replace
from pai_task.session_socket import listen
from pai_task.supervisor.piped_secrets import read_secrets
from pai_task.supervisor.spawning import open_standard_streams
from pai_task.supervisor.supervisor import supervise

_STANDARD = (0, 1, 2)


def main() -> int:
    """Supervise the task, and return its exit code. Raises OSError, ValueError and EOFError."""
    where, options = sys.argv[1:]
    return supervise_piped(where, LaunchOptions.from_argument(options))


def supervise_piped(where: str, options: LaunchOptions) -> int:
    """Supervise the task whose directory is at `where`, as `main` does."""
    open_standard_streams()
    secrets, lifeline = _secrets(), os.dup(0)
    with Folder.at(where) as folder:
        given = replace(
            options,
            secrets_fd=secrets,
            lifeline_fd=lifeline,
            sessions_fd=listen(folder),
            hook_argv=hook_argv(),
        )
        null = os.open(os.devnull, os.O_RDWR)
        for fd in _STANDARD:  # what the task writes is in its logs
            os.dup2(null, fd)
        os.close(null)
        return supervise(folder, given)


def _secrets() -> int:
    """Return the descriptor of a file with the secrets."""
    fd = os.memfd_create("pai-runtime")
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(read_secrets())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
