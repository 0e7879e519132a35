"""A proxy for HTTP and HTTPS, which leads each host to a server on this machine."""

import select
import socket
import ssl
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from tests.fault_server import Request
from tests.local_server import LocalServer


class ProxyServer(LocalServer):
    """`ports` has the port of each host. `authorization` must be given to it, if it is not empty."""

    def __init__(
        self, ports: Mapping[str, int], authorization: str = "", certificate: Path | None = None
    ) -> None:
        super().__init__(_Handler, certificate=certificate)
        self.ports = ports
        self.authorization = authorization
        self.requests: list[Request] = []


class _Handler(BaseHTTPRequestHandler):
    server: ProxyServer

    def do_CONNECT(self) -> None:
        with self._connected(self.path.rpartition(":")[0]) as behind:
            self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            _join(self.connection, behind)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        with self._connected(url.hostname or "") as behind:
            head = [f"GET {url.path} HTTP/1.0", *(f"{name}: {value}" for name, value in self.headers.items())]
            behind.sendall("\r\n".join([*head, "", ""]).encode())
            _join(self.connection, behind)

    def _connected(self, host: str) -> socket.socket:
        self.server.requests.append(Request(self.path, dict(self.headers), self.command))
        if self.headers.get("Proxy-Authorization", "") != self.server.authorization:
            self.send_error(407, f"for {self.headers.get('Proxy-Authorization')}")
            raise PermissionError
        return socket.create_connection(("127.0.0.1", self.server.ports[host]))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are kept in `ProxyServer.requests`."""


def _join(client: socket.socket, server: socket.socket) -> None:
    """Pass on what either says, until one of them ends."""
    while True:
        waiting = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if waiting else select.select([client, server], [], [])[0]
        for source, target in ((client, server), (server, client)):
            if source in ready:
                data = source.recv(1 << 16)
                if not data:
                    return
                target.sendall(data)
