"""What servers of tests have in common: a thread, and an end."""

import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TypeVar

_Server = TypeVar("_Server", bound="LocalServer")


class LocalServer(ThreadingHTTPServer):
    """A context manager. What hangs waits for `ended`.

    With `certificate`, the file of a key and its certificates, it speaks TLS.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self,
        handler: Callable[..., BaseHTTPRequestHandler],
        host: str = "127.0.0.1",
        certificate: Path | None = None,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), handler)
        self.host, self.port = host, self.server_port
        self.lock = threading.Lock()
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
