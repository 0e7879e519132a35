"""Free ports on this machine."""

import os
from collections.abc import Container, Iterable
from itertools import islice

FIRST, END = 15000, 32768
"""The platform's port range, below the ports that the system uses for outgoing connections."""

_BLOCK = 32
"""How many ports are claimed at once: each claim takes an open file."""


class NoFreePorts(Exception):
    """The exception for a machine with fewer free ports than the job needs."""


def free_ports(count: int, apart: Container[int] = ()) -> list[int]:
    """Return `count` different free ports, none of them in `apart`. Raises `NoFreePorts`.

    As long as this process lives, nobody else on this machine is given them: a server may listen much later,
    or again after a retry. The search starts at a number derived from our process id.
    """
    start = os.getpid() * 131
    order = [FIRST + (start + offset) % (END - FIRST) for offset in range(END - FIRST)]
    claims = _claims()
    ports = list(islice((each for each in order if each not in apart and claims.give(each)), count))
    if len(ports) < count:  # there are more runs than blocks: one that another may have is better than none
        given = set(ports)
        left = (each for each in order if each not in apart and each not in given and _is_free(each))
        ports += islice(left, count - len(ports))
    if len(ports) < count:
        raise NoFreePorts(f"the job needs {count} ports, but only {len(ports)} of {FIRST}-{END - 1} are free")
    return ports


class _Claims:
    """The blocks of ports that a process has claimed.

    A claim is the name of an abstract socket: nobody else can have it, it is known where ports are, in a
    network namespace, leaves no file, and ends with the process.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._blocks: dict[int, bool] = {}
        self._given: set[int] = set()

    def give(self, port: int) -> bool:
        """Return whether a port can be given to a run, for the first time, and note that it is."""
        if port in self._given or not self._has(port // _BLOCK) or not _is_free(port):
            return False
        self._given.add(port)
        return True

    def _has(self, block: int) -> bool:
        if block not in self._blocks:
            self._blocks[block] = _claim(f"\0pai-runtime/ports/{block * _BLOCK}")
        return self._blocks[block]


def _claim(name: str) -> bool:
    """Bind an abstract socket, for as long as this process lives; return whether that could be done."""
    import socket  # noqa: PLC0415 - as below

    with socket.socket(socket.AF_UNIX) as claim:
        try:
            claim.bind(name)
        except OSError:
            return False
        claim.detach()
    return True


_own: list[_Claims] = []


def _claims() -> _Claims:
    """Return the claims of this process; those of the one that it was forked from are not its own."""
    if not _own or _own[0].process != os.getpid():
        _own[:] = [_Claims()]
    return _own[0]


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
