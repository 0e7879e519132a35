"""OpenPAI's REST server behind its portal's address, and the log-manager of its node."""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.local_server import LocalServer
from tests.openpai.cluster import Cluster
from tests.openpai.log_manager import LogManager
from tests.openpai.routes import Call, reply
from tests.openpai.submission import Refused


@dataclass(frozen=True)
class Fault:
    """`lost`: the request is done, and its reply is not sent. Else a reply instead, if it has a status."""

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False
    delay: float = 0


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    authorization: str
    body: bytes


class OpenpaiServer(LocalServer):
    """A context manager. What the cluster has is in `cluster`."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        super().__init__(_Handler, certificate=certificate)
        self.cluster = Cluster(folder)
        self.requests: list[Request] = []
        self._faults: list[tuple[str, str, Fault]] = []

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036 - the three, passed on
        self.cluster.end()
        super().__exit__(*error)

    def arm(self, fault: Fault, method: str = "", path: str = "", times: int = 1) -> None:
        """Apply to the next requests of this method whose path has this text in it."""
        with self.lock:
            self._faults += [(method, path, fault)] * times

    def take_fault(self, method: str, path: str) -> Fault:
        with self.lock:
            for index, (of_method, part, fault) in enumerate(self._faults):
                if of_method in ("", method) and part in path:
                    del self._faults[index]
                    return fault
        return Fault()


class _Handler(BaseHTTPRequestHandler):
    server: OpenpaiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        request = Request(self.command, self.path, self.headers.get("Authorization", ""), body)
        with self.server.lock:
            self.server.requests.append(request)
        fault = self.server.take_fault(self.command, self.path)
        self.server.ended.wait(fault.delay)
        if fault.status:
            self._send(fault.status, fault.body, dict(fault.headers))
        elif address.path.startswith(LogManager.address):
            name = unquote(address.path).rpartition("/")[2]
            asked = self.headers.get("Range", "")
            self._send(*self.server.cluster.logs.serve(name, dict(parse_qsl(address.query)), asked))
        else:
            self._api(request, lost=fault.lost)

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815 - what the base class calls

    def _api(self, request: Request, *, lost: bool) -> None:
        address = urlsplit(request.path)
        path = unquote(address.path).removeprefix("/rest-server")
        body = request.body
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.headers.get("Content-Type", "")
        query = dict(parse_qsl(address.query))
        call = Call(self.server.cluster, request.authorization, body, kind, query)
        try:
            status, document = reply(call, self.command, path)
        except Refused as refused:
            status, document = refused.status, refused.document
        if lost:
            self.close_connection = True
            return
        is_config = path.endswith("/config") and status == 200
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        tag = base64.b64encode(hashlib.sha1(text, usedforsecurity=False).digest()).decode()[:27]
        headers = {
            "Content-Type": f"{'text/yaml' if is_config else 'application/json'}; charset=utf-8",
            "ETag": f'W/"{len(text):x}-{tag}"',
        }
        if status == 302:
            headers["Location"] = document
        if status == 200 and self.headers.get("If-None-Match") == headers["ETag"]:
            status, text = 304, b""
        self._send(status, text, headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass
