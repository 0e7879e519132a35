"""One HTTP request, by the standard library: within a deadline, and with an answer of a bounded size."""

from __future__ import annotations

import io
import re
import ssl
import time
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from threading import Thread
from typing import TYPE_CHECKING

from pai_runtime.document.printable import printable
from pai_runtime.plugin.backoff import retry_after
from pai_runtime.task.record import record

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from email.message import Message
    from http.client import HTTPConnection

_PROXY_WORDS = re.compile("(?<=^Tunnel connection failed: ...).*", re.DOTALL)
"""What a proxy says after its status, which could repeat what it was sent."""
_PIECE = 1 << 16
_MOST_AROUND = 1 << 20
"""Bytes that may come beside the body: the headers, and the frames of its chunks."""


class NoAnswer(Exception):
    """No whole answer came. `permanent`: another try would end the same way."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


@record(frozen=True)
class Answer:
    """A whole answer, whatever its status. A redirect is an answer too, and is not followed."""

    status: int
    headers: Message
    body: bytes

    @property
    def may_pass(self) -> bool:
        """Whether it is an error that another try may not meet."""
        overloaded = self.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
        return overloaded or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def pause(self) -> float:
        """How many seconds the server asks to wait before another try."""
        return retry_after(self.headers["Retry-After"], time.time())


def get(
    connection: HTTPConnection,
    target: str,
    headers: Mapping[str, str],
    left: Callable[[], float],
    most: int,
    method: str = "GET",
) -> Answer:
    """What the server answers to one request on a new connection, which is closed; raises `NoAnswer`.

    `left` gives the seconds that are left for all of it: to look up a host name, to connect, for TLS, and
    for the answer, however slowly its bytes come. The body has at most `most` bytes. No `NoAnswer` repeats a
    header of the request.
    """
    try:
        connection.timeout = _some(left())
        _connect(connection, left())
        connection.request(method, target, headers={**headers, "Connection": "close"})
        with HTTPResponse(connection.sock, method=method) as response:
            raw = _Bounded(connection.sock, response.fp.detach(), left, most + _MOST_AROUND)
            response.fp = io.BufferedReader(raw)
            response.begin()
            return Answer(response.status, response.headers, _body(response, most))
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(_reason(error), permanent=isinstance(error, ssl.SSLCertVerificationError)) from None
    finally:
        connection.close()


def _connect(connection: HTTPConnection, seconds: float) -> None:
    """Connect, in a thread: where no name server answers, the system's resolver takes minutes.

    Such a thread is left alone; it ends with the process at the latest.
    """
    errors: list[Exception] = []

    def connect() -> None:
        try:
            connection.connect()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            errors.append(error)

    thread = Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]


def _body(response: HTTPResponse, most: int) -> bytes:
    """The body as a whole. Read piece by piece: what the server says of its length must not take memory."""
    body = bytearray()
    while piece := response.read(_PIECE):
        body += piece
        if len(body) > most:
            raise _too_large(most)
    if response.length:
        raise IncompleteRead(bytes(body), response.length)
    return bytes(body)


class _Bounded(io.RawIOBase):
    """What comes from a socket: until the time is over, and no more than `most` bytes."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, left: Callable[[], float], most: int) -> None:
        self._sock = sock
        self._raw = raw
        self._left = left
        self._rest = most
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        self._sock.settimeout(_some(self._left()))
        count = self._raw.readinto(buffer)
        self._rest -= count or 0
        if self._rest < 0:
            raise _too_large(self._most)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _some(seconds: float) -> float:
    """The seconds, if they are any: to a socket, 0 means not to wait at all."""
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _too_large(most: int) -> NoAnswer:
    return NoAnswer(f"the response is larger than {most} bytes", permanent=True)


def _reason(error: Exception) -> str:
    """What went wrong; of text from the server, only what is printable, and little of it."""
    if isinstance(error, TimeoutError):
        return "no complete response in time"
    if isinstance(error, IncompleteRead):
        return f"the connection was closed after {len(error.partial)} bytes of the response"
    if isinstance(error, RemoteDisconnected):
        return "the connection was closed before a response came"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return printable(error.strerror or _PROXY_WORDS.sub("", str(error)))
    return "the response is not HTTP"
