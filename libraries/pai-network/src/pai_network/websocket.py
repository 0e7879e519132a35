"""Messages of the WebSocket protocol (RFC 6455) on a connection that is there, as a client."""

import hashlib
import secrets
import struct
import threading
from base64 import b64encode
from contextlib import suppress
from typing import Final

from pai_network.answer import NoAnswer
from pai_network.client import Upgraded

MOST_BYTES: Final = 1 << 20
"""Maximum size of a message in bytes, either way."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What every server adds to the key, by the RFC."""
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_NORMAL: Final = 1000
"""The status of a regular end."""
_LAST: Final = 0x80
_MASKED: Final = 0x80
_OF_16_BITS, _OF_64_BITS = 126, 127
_PIECE: Final = 1 << 16


def new_key() -> str:
    """Return the random key of a request."""
    return b64encode(secrets.token_bytes(16)).decode()


def request_headers(key: str, protocol: str) -> dict[str, str]:
    """Return the headers of a request for a WebSocket with this subprotocol."""
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": protocol,
    }


def accepted(key: str) -> str:
    """Return what a server answers to a key."""
    return b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


class WebSocket:
    """A WebSocket; one thread receives, any thread may send or close. All methods raise `NoAnswer`."""

    def __init__(self, connection: Upgraded) -> None:
        self._connection = connection
        self._buffer = b""
        self._sending = threading.Lock()

    def receive(self) -> bytes | None:
        """Return the next message; None once the server has closed the WebSocket, or we have."""
        message, is_begun = b"", False
        while True:
            head = self._take(2)
            if head is None:
                return None
            kind, is_last = head[0] & 0x0F, bool(head[0] & _LAST)
            payload = self._payload(head[1])
            if payload is None or kind == _CLOSE:
                return None
            if kind == _PING:
                self._send(_PONG, payload)
            elif kind in (_TEXT, _BINARY, _CONTINUATION) and (kind == _CONTINUATION) == is_begun:
                message, is_begun = message + payload, True
                if len(message) > MOST_BYTES:
                    raise NoAnswer(f"a message is larger than {MOST_BYTES} bytes", permanent=True)
                if is_last:
                    return message
            elif kind != _PONG:
                raise NoAnswer("the server does not keep to the WebSocket protocol", permanent=True)

    def send(self, message: bytes) -> None:
        """Send a message."""
        self._send(_BINARY, message)

    def close(self) -> None:
        """Close the WebSocket, and end a `receive` in another thread."""
        with suppress(NoAnswer):  # it is closed
            self._send(_CLOSE, struct.pack(">H", _NORMAL))
        self._connection.close()

    def _send(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        if size < _OF_16_BITS:
            head = bytes([_LAST | kind, _MASKED | size])
        elif size < 1 << 16:
            head = struct.pack(">BBH", _LAST | kind, _MASKED | _OF_16_BITS, size)
        else:
            head = struct.pack(">BBQ", _LAST | kind, _MASKED | _OF_64_BITS, size)
        mask = secrets.token_bytes(4)
        with self._sending:
            self._connection.write(head + mask + _masked(payload, mask))

    def _payload(self, size: int) -> bytes | None:
        """Return the payload whose length the second byte of a frame begins to say; None at the end."""
        if size & _MASKED:
            raise NoAnswer("the server does not keep to the WebSocket protocol", permanent=True)
        for short, form in ((_OF_16_BITS, ">H"), (_OF_64_BITS, ">Q")):
            if size == short:
                more = self._take(struct.calcsize(form))
                if more is None:
                    return None
                (size,) = struct.unpack(form, more)
                break
        if size > MOST_BYTES:
            raise NoAnswer(f"a message is larger than {MOST_BYTES} bytes", permanent=True)
        return self._take(size)

    def _take(self, count: int) -> bytes | None:
        """Return so many bytes; None if the connection ends before."""
        while len(self._buffer) < count:
            data = self._connection.read(_PIECE)
            if not data:
                return None
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken


def _masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    stream = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")
