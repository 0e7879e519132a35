"""One HTTP request by the standard library, within a deadline and with an answer of bounded size."""

from __future__ import annotations

import io
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING

from pai_runtime.network.answer import Answer, no_answer, read_body, too_large
from pai_runtime.network.deadline import within

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from http.client import HTTPConnection

_MOST_AROUND = 1 << 20
"""Maximum bytes besides the body: the headers, and the frames of its chunks."""


def get(
    connection: HTTPConnection,
    target: str,
    headers: Mapping[str, str],
    left: Callable[[], float],
    most: int,
    method: str = "GET",
) -> Answer:
    """Return the answer to one request on a new connection, which is closed. Raises `NoAnswer`.

    `left` returns the seconds left for all of it: name lookup, connection, TLS and the answer, however slowly
    its bytes come. The body has at most `most` bytes. No `NoAnswer` repeats a header of the request.
    """
    try:
        connection.timeout = _some(left())
        within(left(), connection.connect)
        connection.request(method, target, headers={**headers, "Connection": "close"})
        with HTTPResponse(connection.sock, method=method) as response:
            raw = _Bounded(connection.sock, response.fp.detach(), left, most + _MOST_AROUND)
            response.fp = io.BufferedReader(raw)
            response.begin()
            return Answer(response.status, response.headers, _body(response, most))
    except (OSError, HTTPException, ValueError) as error:
        raise no_answer(error) from None
    finally:
        connection.close()


def _body(response: HTTPResponse, most: int) -> bytes:
    """Read the whole body. Raises IncompleteRead if it ends early."""
    body = read_body(response.read, most)
    if response.length:
        raise IncompleteRead(body, response.length)
    return body


class _Bounded(io.RawIOBase):
    """A stream from a socket that ends at a deadline, or after `most` bytes."""

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
            raise too_large(self._most)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _some(seconds: float) -> float:
    """Return a positive timeout; raise TimeoutError for 0, which to a socket means not to wait at all."""
    if seconds <= 0:
        raise TimeoutError
    return seconds
