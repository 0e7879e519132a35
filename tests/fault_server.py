"""A server that answers HTTP as it is told: rightly, wrongly, by halves, or without end."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.local_server import LocalServer


@dataclass(frozen=True)
class Reply:
    """What one request gets.

    `raw`: these bytes in the place of an answer, and then the end of the connection. What is `endless` is
    repeated until the client goes away, every `pace` seconds. With `hang` nothing more comes, and no end.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    endless: bytes = b""
    pace: float = 0
    hang: bool = False


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    method: str = "GET"


class FaultServer(LocalServer):
    """A context manager. `replies` are given one after the other, and the last one to all further requests.
    `asked` is set with the first of them.
    """

    def __init__(self, *replies: Reply, host: str = "127.0.0.1", certificate: Path | None = None) -> None:
        super().__init__(_Handler, host, certificate)
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.asked = threading.Event()

    def next_reply(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            self.asked.set()
            return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


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
        while reply.endless and not self.server.ended.wait(reply.pace):
            self.wfile.write(reply.endless)
        if reply.hang:
            self.server.ended.wait()

    do_HEAD = do_GET  # noqa: N815 - the name is the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are kept in `FaultServer.requests`."""
