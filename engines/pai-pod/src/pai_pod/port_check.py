"""A check whether the ports that the platform gave to this task are free on its host.

A pod on the host's network shares the ports with all that runs there, and the platform draws them by chance.
Another pod of the same task gets others.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EVERYWHERE = ((socket.AF_INET, ""), (socket.AF_INET6, "::"))


def taken_ports(ports: Mapping[str, Sequence[int]]) -> list[str]:
    """Return a line for each port of this task, given by label, that is taken or assigned twice.

    This is a snapshot: no port is reserved for the task's container.
    """
    labels: dict[int, list[str]] = {}
    for label, numbers in ports.items():
        for number in numbers:
            labels.setdefault(number, []).append(label)
    found = []
    for number, users in labels.items():
        if len(users) > 1:
            given = f"was assigned to this task {len(users)} times ({', '.join(users)})"
            found.append(f"port {number} {given}; a retry gets others")
        if _is_taken(number):
            found.append(f"port {number} ({users[0]}) is already in use on this host; retry on another node")
    return found


def _is_taken(port: int) -> bool:
    """Return whether a server could not listen on a TCP port at all IPv4 and IPv6 addresses.

    As with servers, a port with only ended connections counts as free, since the task may have run before. An
    address family that the host lacks, and a port that this user must not use, tell nothing.
    """
    for family, address in _EVERYWHERE:
        try:
            socket.create_server((address, port), family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
    return False
