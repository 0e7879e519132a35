"""A server on this machine for the end of a login in a browser, which brings the token in an address."""

import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pai_network.authorization import is_token

_IDLE_SECONDS: Final = 10
_PAGE: Final = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>pai-runtime</title>
<p>You are logged in; this page can be closed.
<script>history.replaceState(null, "", "/")</script>
"""
"""What the browser shows; its history does not keep the address."""


class Loopback:
    """A context manager. Only an address with a random path counts, and its first token."""

    def __init__(self) -> None:
        self._path = f"/{secrets.token_urlsafe(24)}"
        self._came = threading.Event()
        self._token = ""
        self._server = _Server(self)

    @property
    def url(self) -> str:
        """The address to which the browser is to be sent."""
        return f"http://127.0.0.1:{self._server.server_port}{self._path}"

    def __enter__(self) -> "Loopback":  # noqa: PYI034 - Python 3.10 has no Self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, seconds: float) -> str:
        """Return the token; empty if none has come in time."""
        self._came.wait(seconds)
        return self._token

    def take(self, address: str) -> bool:
        """Take the token in the address of a request; return whether it is one."""
        parts = urlsplit(address)
        if not secrets.compare_digest(parts.path.encode(), self._path.encode()):
            return False
        tokens = parse_qs(parts.query).get("token", [])
        if self._came.is_set() or len(tokens) != 1 or not is_token(tokens[0]):
            return False
        self._token = tokens[0]
        self._came.set()
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, loopback: Loopback) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.loopback = loopback


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        is_it = self.server.loopback.take(self.path)
        page = _PAGE if is_it else b""
        self.send_response(HTTPStatus.OK if is_it else HTTPStatus.NOT_FOUND)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(page))),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the address has the token."""
