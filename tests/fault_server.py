"""A server that answers HTTP as it is told: rightly, wrongly, by halves, or without end."""

import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TypeVar

_Server = TypeVar("_Server", bound="FaultServer")


@dataclass(frozen=True)
class Reply:
    """What one request gets.

    `raw`: these bytes in the place of an answer, and then the end of the connection. What is `endless` is
    repeated until the client goes away. With `hang` nothing more comes, and no end.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    endless: bytes = b""
    hang: bool = False


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    method: str = "GET"


class FaultServer(ThreadingHTTPServer):
    """A context manager. `replies` are given one after the other, and the last one to all further requests.
    `asked` is set with the first of them.

    With `certificate`, the file of a key and its certificates, it speaks TLS.
    """

    daemon_threads = True

    def __init__(self, *replies: Reply, host: str = "127.0.0.1", certificate: Path | None = None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), _Handler)
        self.host, self.port = host, self.server_port
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.asked = threading.Event()
        self.ended = threading.Event()
        self.context: ssl.SSLContext | None = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.context else 'http'}://{host}:{self.port}"

    def next_reply(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            self.asked.set()
            return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def __enter__(self: _Server) -> _Server:  # noqa: PYI019 - Python 3.10 has no Self
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def finish_request(self, request: object, client_address: object) -> None:
        """In the thread of the request, so that a client that hangs in its handshake holds up nobody."""
        assert isinstance(request, socket.socket)
        if self.context:
            with self.context.wrap_socket(request, server_side=True) as encrypted:
                super().finish_request(encrypted, client_address)
        else:
            super().finish_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultServer

    def do_GET(self) -> None:
        reply = self.server.next_reply(Request(self.path, dict(self.headers), self.command))
        if reply.raw is None:
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
        else:
            self.wfile.write(reply.raw)
        while reply.endless and not self.server.ended.is_set():
            self.wfile.write(reply.endless)
        if reply.hang:
            self.server.ended.wait()

    do_HEAD = do_GET  # noqa: N815 - the name is the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are kept in `FaultServer.requests`."""
