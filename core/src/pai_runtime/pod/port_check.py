"""Whether the ports that the platform gave to this task can be had on its host.

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
    """What is wrong with the ports of this task, which are given by label: a line for each that is taken.

    It is how things are at this moment: no port is kept for the task's container.
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
    """Whether a server could not listen on a TCP port, at all addresses of IPv4 and of IPv6, as it is in use.

    As servers do, it would take over a port that has only ended connections: the task may have run before.
    A family of addresses that the host does not have, and a port that this user must not take, tell nothing.
    """
    for family, address in _EVERYWHERE:
        try:
            socket.create_server((address, port), family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
    return False
