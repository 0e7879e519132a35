"""Addresses of pods."""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses for documentation (RFC 5737, RFC 3849), which the default route serves."""


def is_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def pod_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of this pod, from the environment or the route to others; nothing is sent."""
    told = environment.get("POD_IP", "")
    if is_address(told):
        return told
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                address: str = probe.getsockname()[0]
        except OSError:
            continue
        return address
    return None
