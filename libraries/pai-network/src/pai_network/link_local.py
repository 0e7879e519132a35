"""Link-local addresses: where machines of clouds give their credentials to whoever asks."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

_REFUSED: Final = [
    ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "64:ff9b::169.254.0.0/112")
]
"""The third is such a place, though not link-local; the last is the first by NAT64."""


def is_link_local(host: str) -> bool:
    """Return whether a host is a link-local address, in any spelling that the system's resolver accepts."""
    address: IPv4Address | IPv6Address
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        try:
            address = IPv4Address(socket.inet_aton(host.rstrip(".")))
        except OSError:
            return "%" in host  # which a proxy could decode
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return any(address in network for network in _REFUSED)
