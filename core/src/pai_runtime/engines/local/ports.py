"""Free ports on this machine."""

import os
from collections.abc import Container, Iterable

FIRST, END = 15000, 32768
"""The platform's range, as far as the system does not give its ports to outgoing connections."""


class NoFreePorts(Exception):
    """The machine has fewer free ports than the job needs."""


def free_ports(count: int, apart: Container[int] = ()) -> list[int]:
    """`count` different ports that nobody uses, and none of those `apart`; raises `NoFreePorts`.

    Looked for from a number on that depends on our process id, so that runs side by side seldom want the same
    ones.
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
    """Those that a server could not listen on now, which is one that can follow another at once."""
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
