"""Where the tasks of a job can be reached, as the platform tells it."""

from collections.abc import Mapping
from typing import NamedTuple

from pai_runtime.plugin import UserError


class Address(NamedTuple):
    """The host, a name or an IP address, and a port of a task."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host  # as in a URL
        return f"{host}:{self.port}"


def host_of(told: Mapping[str, str], role: str, index: int) -> str:
    """Return the host of a task. Raises `UserError` if it is not known."""
    if host := told.get(f"PAI_HOST_IP_{role}_{index}"):
        return host
    raise UserError(
        f"the address of {role}/{index} is not known; here that takes gangAllocation: true,"
        " with which tasks wait for each other"
    )


def port_of(told: Mapping[str, str], role: str, index: int, label: str) -> int | None:
    """Return the first port of a task with a label; None if it has none."""
    ports = told.get(f"PAI_PORT_LIST_{role}_{index}_{label}")
    return int(ports.split(",")[0]) if ports else None


def address_of(told: Mapping[str, str], role: str, index: int, label: str) -> Address:
    """Return where a task listens at the port that a plugin has for itself; ``http`` where that is not known.

    Raises `UserError` if the address is not known.
    """
    host = host_of(told, role, index)
    for each in (label, "http"):
        if port := port_of(told, role, index, each):
            return Address(host, port)
    raise UserError(f"the ports of {role}/{index} are not known")
