"""Secrets at the beginning of a pipe that is then left open: their number of bytes, and a JSON object."""

from __future__ import annotations

import fcntl
import os

_PIECE = 65536


def write_secrets(pipe: int, secrets: bytes) -> None:
    """Write the JSON object into a new pipe that nobody reads yet. Raises OSError if there is no room.

    The pipe is made larger only if it must be: the kernel limits the pipe memory of each user.
    """
    text = b"%d\n" % len(secrets) + secrets
    if fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) < len(text):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, len(text))
    os.write(pipe, text)


def read_secrets() -> bytes:
    """Read the secrets from standard input, and return the JSON object. Raises ValueError and EOFError."""
    length = b""
    while not length.endswith(b"\n"):
        length += _read(1)
    found, left = b"", int(length)
    while len(found) < left:
        found += _read(min(left - len(found), _PIECE))
    return found


def _read(most: int) -> bytes:
    piece = os.read(0, most)
    if not piece:
        raise EOFError("whoever started this supervisor has gone")
    return piece
