"""Asking an NFS server for an export, without mounting it: one call of version 4 (RFC 7530) over TCP."""

import os
import socket
import struct
import time

_PROGRAM, _VERSION, _COMPOUND = 100003, 4, 1
_LOOKUP, _PUTROOTFH = 15, 24
_AUTH_SYS = 1
_XID = 0x7061692E
_LAST_FRAGMENT = 1 << 31
_LONGEST_REPLY = 1 << 20
_NOT_THERE = {2: "there is no such export", 20: "the export is not a folder"}
_REFUSED = {1, 13, 10016}


class NoAnswer(Exception):
    """The export cannot be mounted, and why."""


def ask(server: str, port: int, path: str, seconds: float) -> str:
    """What the server says of the export, if it may be there; raises `NoAnswer` after at most `seconds`."""
    where = f"{server}:{path}"
    try:
        reply = _exchange(server, port, _call(path), time.monotonic() + seconds)
        status = _status(reply)
    except TimeoutError:
        raise NoAnswer(f"{where}: the server did not answer within {seconds:g} seconds") from None
    except OSError as error:
        raise NoAnswer(f"{where}: port {port} of the server: {error.strerror or error}") from None
    except struct.error:
        raise NoAnswer(f"{where}: what answers at port {port} is not an NFS server") from None
    if status in _NOT_THERE:
        raise NoAnswer(f"{where}: {_NOT_THERE[status]}")
    if status in _REFUSED:
        return "the server answers, and says no more to a client of these rights"
    return "the server has this export" if status == 0 else f"the server answers (status {status})"


def _call(path: str) -> bytes:
    credentials = struct.pack(">I", 0) + _opaque(socket.gethostname().encode()[:255])
    credentials += struct.pack(">III", os.geteuid(), os.getegid(), 0)
    head = struct.pack(">IIIIII", _XID, 0, 2, _PROGRAM, _VERSION, _COMPOUND)
    names = [name for name in path.split("/") if name not in ("", ".")]
    lookups = b"".join(struct.pack(">I", _LOOKUP) + _opaque(os.fsencode(name)) for name in names)
    return (
        head
        + struct.pack(">I", _AUTH_SYS)
        + _opaque(credentials)
        + struct.pack(">II", 0, 0)  # no verifier
        + struct.pack(">IIII", 0, 0, len(names) + 1, _PUTROOTFH)  # no tag, minor version 0
        + lookups
    )


def _opaque(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _exchange(server: str, port: int, call: bytes, deadline: float) -> bytes:
    with socket.create_connection((server, port), timeout=_left(deadline)) as connection:
        connection.sendall(struct.pack(">I", _LAST_FRAGMENT | len(call)) + call)
        reply, is_last = b"", False
        while not is_last:
            (mark,) = struct.unpack(">I", _receive(connection, 4, deadline))
            is_last = bool(mark & _LAST_FRAGMENT)
            reply += _receive(connection, mark & ~_LAST_FRAGMENT, deadline)
        return reply


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    if size > _LONGEST_REPLY:
        raise struct.error
    data = b""
    while len(data) < size:
        connection.settimeout(_left(deadline))
        part = connection.recv(size - len(data))
        if not part:
            raise struct.error
        data += part
    return data


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _status(reply: bytes) -> int:
    """The status of the call; 1, not permitted, for one that was refused before it was looked at."""
    xid, kind, refused = struct.unpack_from(">III", reply)
    if (xid, kind) != (_XID, 1):
        raise struct.error
    if refused:
        return 1
    _, size, outcome = struct.unpack_from(">III", reply, 12)
    if size:
        (outcome,) = struct.unpack_from(">I", reply, 20 + size + -size % 4)
    if outcome:
        return 1  # another version of NFS, most likely; the mount will tell
    (status,) = struct.unpack_from(">I", reply, 24 + size + -size % 4)
    return int(status)
