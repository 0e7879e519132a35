"""The process of a step, which supervises one task; the job's secrets come by its standard input."""

import os
import sys
from dataclasses import replace

from pai_runtime.engine.local import (
    Folder,
    LaunchOptions,
    hook_argv,
    listen,
    open_standard_streams,
    supervise,
)

_PIECE = 65536


def main() -> int:
    """Supervise the task in a directory with launch options, and return its exit code."""
    open_standard_streams()
    where, options = sys.argv[1:]
    secrets, lifeline = _secrets(), os.dup(0)
    with Folder.at(where) as folder:
        given = LaunchOptions.from_argument(options)
        sessions = listen(folder)
        given = replace(
            given, secrets_fd=secrets, lifeline_fd=lifeline, sessions_fd=sessions, hook_argv=hook_argv()
        )
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # what the task writes is in its logs
            os.dup2(null, fd)
        os.close(null)
        return supervise(folder, given)


def _secrets() -> int:
    """Return the descriptor of a file with the secrets, which are the first of standard input.

    Raises EOFError if that ends before they do.
    """
    length = b""
    while not length.endswith(b"\n"):
        length += _read(1)
    fd, left = os.memfd_create("pai-runtime"), int(length)
    while left:
        left -= os.write(fd, _read(min(left, _PIECE)))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read(most: int) -> bytes:
    piece = os.read(0, most)
    if not piece:
        raise EOFError("whoever started this step has gone")
    return piece
