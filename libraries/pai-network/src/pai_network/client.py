"""The HTTP client: requests to one server by urllib3, bounded in time, in bytes and in where they go.

Whoever fetches nothing must not import it: that takes as long as the start of Python, five times.
"""

from __future__ import annotations

import io
import socket
import threading
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from ssl import CERT_NONE, SSLContext
from typing import TYPE_CHECKING, Any, Final, TypeVar

import urllib3
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InsecureRequestWarning, LocationValueError

from pai_document.url import shown_url, split_url
from pai_network.answer import Answer, NoAnswer, cause_of, no_answer, read_body, too_large
from pai_network.deadline import within
from pai_network.link_local import is_link_local
from pai_network.proxies import proxy_headers
from pai_network.tls import system_trust
from pai_task.record import field, record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

_CONNECT_SECONDS: Final = 10
_CLOSE_SECONDS: Final = 1
_MOST_KEPT: Final = 64
_MOST_AROUND: Final = 1 << 20
"""Bytes that may come beside a body: the headers, and the frames of its chunks."""
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
    """The exception for a connection that failed before anything of the request was sent."""


@record(frozen=True)
class HttpRequest:
    """One request; `target` is a path with its query."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@record(frozen=True)
class Bounds:
    """The limits of one exchange with a server.

    `seconds` is the timeout from the look-up of the name to the last byte, however slowly they come. `most`
    is the maximum size of the body in bytes; `most_of_error` that of an answer with another status than
    success, whose body is not read at all if it is 0.
    """

    seconds: float
    most: int
    most_of_error: int = 0


class OpenAnswer:
    """An answer's body that is read while it arrives, by one thread; any thread may close it."""

    def __init__(self, response: BaseHTTPResponse, flight: _Flight) -> None:
        self._response = response
        self._read1: Callable[[int], bytes] = response.read1
        self._flight = flight
        self._reading = threading.Lock()
        self._is_closed = False

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`, once there are any; empty at the end, or once closed.

        Raises `NoAnswer` if the connection breaks.
        """
        with self._reading:
            try:
                data = b"" if self._is_closed else self._read1(most)
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


class Upgraded(OpenAnswer):
    """A connection on which the server has switched protocols (status 101), with the headers of its answer.

    It is read as an `OpenAnswer` is, and written to by any thread; a peer that is gone ends it.
    """

    def __init__(self, response: BaseHTTPResponse, flight: _Flight) -> None:
        super().__init__(response, flight)
        self.headers = _message(response)
        self._socket, self._read1 = flight.taken_over()
        self._writing = threading.Lock()

    def write(self, data: bytes) -> None:
        """Send all of some bytes. Raises `NoAnswer` if the connection breaks."""
        try:
            with self._writing:
                self._socket.sendall(data)
        except _FAILURES as error:
            raise no_answer(cause_of(error)) from None


class Client:
    """A client of one server, which keeps connections open between requests; threads may share it.

    `server` is an http or https URL, of which a path goes before each target; `proxy` that of an HTTP proxy,
    and `trust` makes what an https server is trusted by, `server_name` the name in its certificate if that is
    not the host's. With `guarded`, no connection is made to a link-local address, however it is spelled and
    whatever name leads there; by a proxy, it is the proxy that decides where a name leads. No redirect is
    followed. Raises `NotConnected` for what is no URL; no `NoAnswer` repeats a header of a request.
    """

    def __init__(
        self,
        server: str,
        *,
        proxy: SplitResult | None = None,
        trust: Callable[[], SSLContext] = system_trust,
        server_name: str = "",
        guarded: bool = False,
    ) -> None:
        url = split_url(server)
        if url is None or url.username is not None:
            raise _no_address()
        if guarded and is_link_local(url.hostname or ""):
            raise _link_local()
        self._server = server
        self._guarded = guarded and proxy is None
        options: dict[str, Any] = {"num_pools": 1, "maxsize": _MOST_KEPT, "socket_options": _KEEP_ALIVE}
        if url.scheme == "https":
            options["ssl_context"] = trust()
            if options["ssl_context"].verify_mode == CERT_NONE:  # whoever made it so knows
                urllib3.disable_warnings(InsecureRequestWarning)
            if server_name:
                options["server_hostname"] = server_name
        if proxy is None:
            self._manager = PoolManager(**options)
        else:
            trusted = system_trust() if proxy.scheme == "https" else None
            address, headers = shown_url(proxy.geturl()), proxy_headers(proxy)
            self._manager = ProxyManager(address, proxy_headers=headers, proxy_ssl_context=trusted, **options)
        self._manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _EncryptedPool}

    def ask(self, request: HttpRequest, bounds: Bounds) -> Answer:
        """Return the server's answer to a request, with its whole body. Raises `NoAnswer`."""

        def exchange(_: _Flight) -> Answer:
            return _whole(self._send(request, bounds.seconds), bounds)

        most = max(bounds.most, bounds.most_of_error)
        return _flown(_Flight(most + _MOST_AROUND, guarded=self._guarded), bounds.seconds, exchange)

    def open(self, request: HttpRequest, bounds: Bounds, silence: float) -> Answer | OpenAnswer:
        """Return the server's answer to a request; for status 200, an `OpenAnswer`. Raises `NoAnswer`.

        The answer has to begin within the bounds. A read of an open one fails after `silence` seconds in
        which nothing comes.
        """

        def exchange(flight: _Flight) -> Answer | OpenAnswer:
            response = self._send(request, silence)
            if response.status != HTTPStatus.OK:
                return _whole(response, bounds)
            flight.most = None
            return OpenAnswer(response, flight)

        most = bounds.most_of_error + _MOST_AROUND
        return _flown(_Flight(most, guarded=self._guarded), bounds.seconds, exchange)

    def upgrade(self, request: HttpRequest, bounds: Bounds) -> Answer | Upgraded:
        """Return the server's answer to a request to switch protocols; for status 101, an `Upgraded`.

        The answer has to come within the bounds. Raises `NoAnswer`.
        """

        def exchange(flight: _Flight) -> Answer | Upgraded:
            response = self._send(request, bounds.seconds)
            if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
                return _whole(response, bounds)
            flight.most = None
            return Upgraded(response, flight)

        most = bounds.most_of_error + _MOST_AROUND
        return _flown(_Flight(most, guarded=self._guarded), bounds.seconds, exchange)

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._manager.clear()

    def _send(self, request: HttpRequest, silence: float) -> BaseHTTPResponse:
        response: BaseHTTPResponse = self._manager.urlopen(
            request.method,
            self._server + request.target,
            body=request.body or None,
            headers=dict(request.headers),
            timeout=urllib3.Timeout(connect=min(silence, _CONNECT_SECONDS), read=silence),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        return response


def ask_once(url: SplitResult, request: HttpRequest, bounds: Bounds, **options: Any) -> Answer:
    """Return a server's answer, by a `Client` with these `options` for it alone. Raises `NoAnswer`."""
    client = Client(f"{url.scheme}://{url.netloc}", **options)
    try:
        return client.ask(request, bounds)
    finally:
        client.close()


def target_of(url: SplitResult) -> str:
    """Return the request target of a URL: its path with its query."""
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


class _Flight:
    """One request in progress: the connections that it uses, which another thread can end.

    `most` is the maximum number of bytes that it may receive; None means any number.
    """

    def __init__(self, most: int | None, *, guarded: bool) -> None:
        self.most = most
        self.received = 0
        self.guarded = guarded
        self.has_connected = False
        """Whether anything can have been sent."""
        self.received_by: io.BufferedIOBase | None = None
        self._has_ended = False
        self._used: list[Any] = []

    def uses(self, sock: Any) -> None:
        self._used.append(sock)
        if self._has_ended:  # after it was added: nothing that comes too late is overlooked
            self.end()

    def taken_over(self) -> tuple[Any, Callable[[int], bytes]]:
        """Return the socket and its reader, which may hold bytes already, for use without HTTP or timeout."""
        if self.received_by is None:
            raise NoAnswer("the connection was closed")
        sock = self._used[-1]
        sock.settimeout(None)
        return sock, self.received_by.read1

    def end(self) -> None:
        """End all connections, also for a thread that is reading from one, or about to open one."""
        self._has_ended = True
        for each in self._used:
            sock = each
            while not isinstance(sock, socket.socket):  # TLS to a proxy has TLS to the server in it
                sock = sock.socket
            with suppress(OSError):
                # That of an encrypted one would let the other thread read on without TLS.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


_in_flight = threading.local()


def _flown(flight: _Flight, seconds: float, exchange: Callable[[_Flight], _Result]) -> _Result:
    """Return the result of an exchange within `seconds`, and end its connections on failure."""

    def fly() -> _Result:
        _in_flight.flight = flight
        return exchange(flight)

    if seconds <= 0:
        raise NotConnected(str(no_answer(TimeoutError())))
    try:
        return within(seconds, fly)
    except LocationValueError:
        raise _no_address() from None
    except BaseException as error:
        flight.end()  # also for a server, which is to notice that nobody waits for the answer
        if not isinstance(error, _FAILURES):
            raise
        failure = no_answer(cause_of(error))
        if not flight.has_connected:
            failure = NotConnected(str(failure), permanent=failure.permanent)
        raise failure from None


def _whole(response: BaseHTTPResponse, bounds: Bounds) -> Answer:
    with response:
        is_error = response.status >= HTTPStatus.MULTIPLE_CHOICES
        most = bounds.most_of_error if is_error else bounds.most
        return Answer(response.status, _message(response), read_body(response.read, most) if most else b"")


def _message(response: BaseHTTPResponse) -> Message:
    headers = Message()
    for name, value in response.headers.items():
        headers[name] = value
    return headers


def _no_address() -> NotConnected:
    return NotConnected("it has no valid address", permanent=True)


def _link_local() -> NotConnected:
    return NotConnected("its address is link-local; nothing is read from there", permanent=True)


class _Response(HTTPResponse):
    """A response that counts what it receives: for a negative length, http.client would read without end."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        flight: _Flight = _in_flight.flight
        self.fp = io.BufferedReader(_Counted(self.fp.detach(), flight))
        flight.received_by = self.fp


class _Counted(io.RawIOBase):
    """A stream from a socket that raises `NoAnswer` beyond the bytes that the flight may receive."""

    def __init__(self, raw: io.RawIOBase, flight: _Flight) -> None:
        self._raw = raw
        self._flight = flight

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        count = self._raw.readinto(buffer)
        self._flight.received += count or 0
        most = self._flight.most
        if most is not None and self._flight.received > most:
            raise too_large(most)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Plain(HTTPConnection):
    """A connection that registers the socket it uses, new or kept, with the request of its thread."""

    response_class = _Response
    _connecting: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        """Return a new socket, unless it leads to a link-local address that is guarded against."""
        sock = super()._new_conn()
        flight: _Flight = _in_flight.flight
        if flight.guarded and is_link_local(sock.getpeername()[0]):
            sock.close()
            raise _link_local()
        self._connecting = sock.dup()  # what TLS makes of a socket is not known before all is said
        flight.uses(self._connecting)
        return sock

    def connect(self) -> None:
        try:
            super().connect()
        finally:
            if self._connecting is not None:
                self._connecting.close()
        self._is_used()

    def request(self, *args: Any, **options: Any) -> None:
        if self.sock is not None:
            self._is_used()
        super().request(*args, **options)

    def _is_used(self) -> None:
        flight: _Flight = _in_flight.flight
        flight.has_connected = True
        flight.uses(self.sock)


class _Encrypted(_Plain, HTTPSConnection):
    """A connection with TLS that registers its socket; `_Plain` precedes `HTTPSConnection` in its bases."""


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _EncryptedPool(HTTPSConnectionPool):
    ConnectionCls = _Encrypted
