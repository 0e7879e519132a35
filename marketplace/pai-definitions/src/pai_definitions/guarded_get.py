"""One GET by urllib3 within a deadline, of bounded size, and never from a link-local address."""

import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final
from urllib.parse import SplitResult

from urllib3 import (
    BaseHTTPResponse,
    HTTPConnectionPool,
    HTTPSConnectionPool,
    PoolManager,
    ProxyManager,
    Timeout,
)
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationValueError

from pai_runtime.network.answer import Answer, NoAnswer, cause_of, no_answer, read_body
from pai_runtime.network.deadline import within
from pai_runtime.network.proxies import proxy_for, proxy_headers
from pai_runtime.network.tls import system_trust
from pai_runtime.network.url import shown_url, split_url

_CONNECT_SECONDS: Final = 10
_LENGTH: Final = re.compile("[0-9]{1,18}")
_REFUSED: Final = [
    ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "64:ff9b::169.254.0.0/112")
]
"""Metadata services of clouds, which give credentials to anybody; the last one is the first by NAT64."""


def get(text: str, headers: Mapping[str, str], left: Callable[[], float], most: int) -> Answer:
    """Return the server's answer within the seconds `left`. Raises `NoAnswer`.

    It has a body only if its status is 200, and of at most `most` bytes.
    """
    url = split_url(text)
    if url is None or url.username is not None:
        raise NoAnswer("it has no valid address", permanent=True)
    if _is_refused(url.hostname or ""):
        raise _link_local()
    connections = _Connections()
    try:
        return within(left(), lambda: _exchange(url, headers, left(), most, connections))
    except LocationValueError:
        raise NoAnswer("it has no valid address", permanent=True) from None
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        raise no_answer(cause_of(error)) from None
    finally:
        connections.end()


def _exchange(
    url: SplitResult, headers: Mapping[str, str], seconds: float, most: int, connections: "_Connections"
) -> Answer:
    manager = _manager(url, seconds, connections)
    try:
        response = manager.request(
            "GET", url.geturl(), headers=headers, redirect=False, preload_content=False, decode_content=False
        )
        with response:
            body = _body(response, most) if response.status == HTTPStatus.OK else b""
            received = Message()
            for name, value in response.headers.items():
                received[name] = value
            return Answer(response.status, received, body)
    finally:
        manager.clear()


def _manager(url: SplitResult, seconds: float, connections: "_Connections") -> PoolManager:
    """Return a pool manager, by the proxy if there is one, which then resolves names itself."""
    options: dict[str, Any] = {
        "num_pools": 1,
        "retries": False,
        "timeout": Timeout(connect=min(seconds, _CONNECT_SECONDS), read=seconds),
    }
    proxy = proxy_for(url)
    if "https" in (url.scheme, proxy and proxy.scheme):
        options["ssl_context"] = system_trust()
    if proxy is None:
        manager = PoolManager(**options)
    else:
        trust = options.get("ssl_context")
        manager = ProxyManager(
            shown_url(proxy.geturl()), proxy_headers=proxy_headers(proxy), proxy_ssl_context=trust, **options
        )
    connections.guarded = proxy is None
    manager.pool_classes_by_scheme = _pools(connections.opened)
    return manager


class _Connections:
    """The connections of one request, which can be ended while another thread uses them.

    If `guarded`, connections to refused addresses fail. The connected address decides, not the spelling of
    the host or what a name resolved to.
    """

    def __init__(self) -> None:
        self.guarded = True
        self._has_ended = False
        self._open: list[socket.socket] = []

    def opened(self, sock: socket.socket) -> socket.socket:
        """Register a new connection before anything is sent on it. Raises `NoAnswer` if it is not allowed."""
        if self.guarded and _is_refused(sock.getpeername()[0]):
            sock.close()
            raise _link_local()
        self._open.append(sock.dup())
        if self._has_ended:  # after it was added: nothing that comes too late is overlooked
            self.end()
        return sock

    def end(self) -> None:
        """End all connections, also for a thread that is reading from one, or about to open one."""
        self._has_ended = True
        while self._open:
            with self._open.pop() as sock, suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _pools(opened: Callable[[socket.socket], socket.socket]) -> dict[str, type[HTTPConnectionPool]]:
    """Return pool classes that pass each new connection to `opened` first."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return opened(super()._new_conn())

    class Encrypted(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return opened(super()._new_conn())

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    return {"http": PlainPool, "https": EncryptedPool}


def _body(response: BaseHTTPResponse, most: int) -> bytes:
    """Read the whole body. Raises `NoAnswer` for a response without a length, which might be incomplete."""
    codings = (response.headers.get("Content-Encoding", ""), response.headers.get("Transfer-Encoding", ""))
    if codings[0].lower() not in ("", "identity") or codings[1].lower() not in ("", "chunked"):
        raise NoAnswer("its response is compressed, which was not asked for", permanent=True)
    if not codings[1] and not _LENGTH.fullmatch(response.headers.get("Content-Length", "")):
        raise NoAnswer("its response does not say how long it is", permanent=True)
    return read_body(response.read, most)


def _is_refused(host: str) -> bool:
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


def _link_local() -> NoAnswer:
    return NoAnswer("its address is link-local; no definition is read from there", permanent=True)
