"""Free ports on this machine."""

import os
from collections.abc import Container, Iterable

FIRST, END = 15000, 32768
"""The platform's port range, below the ports that the system uses for outgoing connections."""


class NoFreePorts(Exception):
    """The exception for a machine with fewer free ports than the job needs."""


def free_ports(count: int, apart: Container[int] = ()) -> list[int]:
    """Return `count` different free ports, none of them in `apart`. Raises `NoFreePorts`.

    The search starts at a number derived from our process id, so that concurrent runs seldom want the same
    ports.
    """
    start = os.getpid() * 131
    ports: list[int] = []
    for offset in range(END - FIRST):
        if len(ports) == count:
            return ports
        port = FIRST + (start + offset) % (END - FIRST)
        if port not in apart and _is_free(port):
            ports.append(port)
    raise NoFreePorts(f"the job needs {count} ports, but only {len(ports)} of {FIRST}-{END - 1} are free")


def taken_ports(ports: Iterable[int]) -> list[int]:
    """Return the ports on which a server could not listen now, with address reuse."""
    return [port for port in ports if not _is_free(port, follows=True)]


def _is_free(port: int, *, follows: bool = False) -> bool:
    import socket  # noqa: PLC0415 - who only looks at a plan takes no ports

    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(follows))
        try:
            holder.bind(("", port))
        except OSError:
            return False
    return True
