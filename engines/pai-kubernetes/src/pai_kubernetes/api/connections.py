"""HTTP requests to one server by urllib3, within a deadline, over connections that are kept open."""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, TypeVar

import urllib3
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InsecureRequestWarning, LocationValueError

from pai_kubernetes.api.access import Access, Login, tls_context
from pai_runtime.engines.cluster import ClusterError
from pai_runtime.network.answer import Answer, NoAnswer, cause_of, no_answer, read_body
from pai_runtime.network.deadline import within
from pai_runtime.network.proxies import proxy_for, proxy_headers
from pai_runtime.network.tls import system_trust
from pai_runtime.network.url import shown_url, split_url
from pai_runtime.task.record import field, record

_CONNECT_SECONDS: Final = 10
_CLOSE_SECONDS: Final = 1
_MOST_KEPT: Final = 64
_MOST_OF_REFUSAL: Final = 1 << 20
_KEEP_ALIVE: Final = [
    *HTTPConnection.default_socket_options,
    # A peer that is gone is noticed in a minute and a half, and no router forgets a watch that is quiet.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
]


_FAILURES: Final = (HTTPError, HTTPException, OSError, ValueError)

_Result = TypeVar("_Result")


class NotConnected(NoAnswer):
    """The exception for a failed connection, so that no request was sent."""


@record(frozen=True)
class HttpRequest:
    """One request; `target` is a path with its query."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class OpenAnswer:
    """A body of unknown length that is read as it comes, by one thread; any thread may close it."""

    def __init__(self, response: BaseHTTPResponse, flight: "_Flight") -> None:
        self._response = response
        self._flight = flight
        self._reading = threading.Lock()
        self._is_closed = False

    def read(self, most: int) -> bytes:
        """Return what has come, at least one byte; empty at the end, or once closed.

        Raises `NoAnswer` if the connection breaks.
        """
        with self._reading:
            try:
                data = b"" if self._is_closed else self._response.read1(most)
            except _FAILURES as error:
                if self._is_closed:
                    return b""
                raise no_answer(cause_of(error)) from None
            return b"" if self._is_closed else data or b""

    def close(self) -> None:
        """Close the connection, and end a read in another thread."""
        self._is_closed = True
        self._flight.end()
        # The read has ended by now; but a response that is being read cannot be closed.
        if self._reading.acquire(timeout=_CLOSE_SECONDS):
            self._response.close()
            self._reading.release()


class Connections:
    """The connections to one server, which many threads may use."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._managers: dict[tuple[bytes, bytes], PoolManager] = {}

    def ask(self, request: HttpRequest, login: Login, seconds: float, most: int) -> Answer:
        """Return the whole answer to a request, of at most `most` bytes. Raises `NoAnswer`."""

        def exchange(_: _Flight) -> Answer:
            return _whole(self._send(request, login, seconds), most)

        return _flown(seconds, exchange)

    def open(self, request: HttpRequest, login: Login, seconds: float, silence: float) -> Answer | OpenAnswer:
        """Return the answer to a request, whose body is still to be read if its status is 200.

        Raises `NoAnswer`. It has to begin within `seconds`; a read fails when nothing comes for `silence`
        seconds.
        """

        def exchange(flight: _Flight) -> Answer | OpenAnswer:
            response = self._send(request, login, silence)
            if response.status == HTTPStatus.OK:
                return OpenAnswer(response, flight)
            return _whole(response, _MOST_OF_REFUSAL)

        return _flown(seconds, exchange)

    def _send(self, request: HttpRequest, login: Login, silence: float) -> BaseHTTPResponse:
        response: BaseHTTPResponse = self._manager(login).urlopen(
            request.method,
            self._access.server + request.target,
            body=request.body or None,
            headers=dict(request.headers),
            timeout=urllib3.Timeout(connect=min(silence, _CONNECT_SECONDS), read=silence),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        return response

    def _manager(self, login: Login) -> PoolManager:
        """Return the pool manager for a client certificate; that of an earlier certificate is dropped."""
        key = (login.certificate, login.key)
        with self._lock:
            manager = self._managers.get(key)
            if manager is None:
                self._managers.clear()
                manager = self._managers[key] = _new_manager(self._access, login)
            return manager


def _new_manager(access: Access, login: Login) -> PoolManager:
    options: dict[str, Any] = {"num_pools": 1, "maxsize": _MOST_KEPT, "socket_options": _KEEP_ALIVE}
    url = split_url(access.server)
    if url is None:
        raise NotConnected("it has no valid address", permanent=True)
    if url.scheme == "https":
        options["ssl_context"] = tls_context(access, login)
        if access.server_name:
            options["server_hostname"] = access.server_name
    if access.insecure:
        urllib3.disable_warnings(InsecureRequestWarning)  # whoever wrote the kubeconfig has decided it
    proxy = split_url(access.proxy) if access.proxy else proxy_for(url)
    if proxy is None:
        manager = PoolManager(**options)
    else:
        trust = system_trust() if proxy.scheme == "https" else None
        address, headers = shown_url(proxy.geturl()), proxy_headers(proxy)
        manager = ProxyManager(address, proxy_headers=headers, proxy_ssl_context=trust, **options)
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _EncryptedPool}
    return manager


class _Flight:
    """The connections that one request uses, which another thread can end."""

    def __init__(self) -> None:
        self._has_ended = False
        self._used: list[Any] = []

    def uses(self, sock: Any) -> None:
        self._used.append(sock)
        if self._has_ended:  # after it was added: nothing that comes too late is overlooked
            self.end()

    def has_connected(self) -> bool:
        """Return whether anything may have been sent; valid once the request has ended."""
        return bool(self._used)

    def end(self) -> None:
        self._has_ended = True
        for each in self._used:
            sock = each
            while not isinstance(sock, socket.socket):  # TLS to a proxy has TLS to the server in it
                sock = sock.socket
            with suppress(OSError):
                # That of an encrypted one would let the other thread read on without TLS.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


_in_flight = threading.local()


def _flown(seconds: float, exchange: Callable[[_Flight], _Result]) -> _Result:
    """Return the result of an exchange within `seconds`, and end its connections on failure."""
    flight = _Flight()

    def fly() -> _Result:
        _in_flight.flight = flight
        return exchange(flight)

    try:
        return within(seconds, fly)
    except LocationValueError:
        raise NotConnected("it has no valid address", permanent=True) from None
    except ClusterError as error:  # the certificates are of no use
        raise NotConnected(str(error), permanent=True) from None
    except _FAILURES as error:
        flight.end()
        failure = no_answer(cause_of(error))
        if not flight.has_connected():
            failure = NotConnected(str(failure), permanent=failure.permanent)
        raise failure from None
    except KeyboardInterrupt:
        flight.end()  # so that the server notices that nobody waits for the answer
        raise


def _whole(response: BaseHTTPResponse, most: int) -> Answer:
    """Read the whole answer, of limited size if it is an error."""
    with response:
        bound = most if response.status < HTTPStatus.MULTIPLE_CHOICES else _MOST_OF_REFUSAL
        headers = Message()
        for name, value in response.headers.items():
            headers[name] = value
        return Answer(response.status, headers, read_body(response.read, bound))


class _Plain(HTTPConnection):
    """A connection that registers the socket it uses, new or kept, with the request of its thread."""

    def connect(self) -> None:
        super().connect()
        _in_flight.flight.uses(self.sock)

    def request(self, *args: Any, **options: Any) -> None:
        if self.sock is not None:
            _in_flight.flight.uses(self.sock)
        super().request(*args, **options)


class _Encrypted(_Plain, HTTPSConnection):
    """A connection with TLS that registers its socket; `_Plain` precedes `HTTPSConnection` in its bases."""


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _EncryptedPool(HTTPSConnectionPool):
    ConnectionCls = _Encrypted
