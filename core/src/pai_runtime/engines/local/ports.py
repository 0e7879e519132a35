"""Free ports on this machine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

FIRST, END = 15000, 32768
"""The platform's range, as far as the system does not give its ports to outgoing connections."""


class NoFreePorts(Exception):
    """The machine has fewer free ports than the job needs."""


@contextmanager
def free_ports(count: int, start: int) -> Iterator[list[int]]:
    """`count` ports that nobody uses, looked for from `start` on and held until the block ends."""
    import socket  # noqa: PLC0415 - who only looks at a plan takes no ports

    with ExitStack() as held:
        ports: list[int] = []
        for offset in range(END - FIRST):
            if len(ports) == count:
                break
            port = FIRST + (start - FIRST + offset) % (END - FIRST)
            holder = held.enter_context(socket.socket())
            try:
                holder.bind(("", port))
            except OSError:
                continue
            ports.append(port)
        if len(ports) < count:
            raise NoFreePorts(
                f"the job needs {count} ports, and only {len(ports)} of {FIRST}-{END - 1} are free"
            )
        yield ports
