"""Programs and ports of pods behind the stand-in API server: the WebSockets of ``exec`` and ``portforward``.

A program is a process of this machine, with a terminal of its own if it is to have one.
"""

import base64
import fcntl
import hashlib
import json
import os
import pty
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE, _PING = 8, 9
EXEC, FORWARD = "v5.channel.k8s.io", "v4.channel.k8s.io"


class ServerSocket:
    """The server's side of a WebSocket, on the connection of a request."""

    def __init__(self, handler: BaseHTTPRequestHandler, protocols: Sequence[str]) -> None:
        asked = [each.strip() for each in handler.headers["Sec-WebSocket-Protocol"].split(",")]
        key = handler.headers["Sec-WebSocket-Key"] + _GUID
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header(
            "Sec-WebSocket-Accept",
            base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest()).decode(),
        )
        handler.send_header("Sec-WebSocket-Protocol", next(each for each in asked if each in protocols))
        handler.end_headers()
        handler.close_connection = True
        handler.connection.settimeout(None)
        self._reads, self._writes = handler.rfile, handler.wfile
        self._lock = threading.Lock()
        self.is_gone = False
        """Whether the client is no longer there."""

    def send(self, data: bytes, kind: int = 2) -> None:
        """One message, or a frame of another kind."""
        size = len(data)
        head = (
            struct.pack(">BB", 0x80 | kind, size)
            if size < 126
            else struct.pack(">BBH", 0x80 | kind, 126, size)
        )
        try:
            with self._lock:
                self._writes.write(head + data)
        except (OSError, ValueError):
            self.is_gone = True

    def receive(self) -> bytes | None:
        """The next message; None when the client has closed it, or is gone."""
        while True:
            head = self._reads.read(2)
            if len(head) < 2 or head[0] & 0x0F == _CLOSE:
                return None
            assert head[0] & 0x80, "it is in pieces"
            assert head[1] & 0x80, "it is not masked"
            size = head[1] & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._reads.read(2))
            mask, data = self._reads.read(4), self._reads.read(size)
            if head[0] & 0x0F == 2:
                return bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))

    def close(self) -> None:
        self.send(struct.pack(">H", 1000), _CLOSE)


def run_program(
    handler: BaseHTTPRequestHandler, program: Callable[[Sequence[str], bool], Sequence[str]]
) -> None:
    """Answer a request for ``exec``; `program` makes of a command line, with or
    without a terminal, one of this machine.
    """
    query = parse_qs(urlsplit(handler.path).query, keep_blank_values=True)
    has_input, terminal = "stdin" in query, "tty" in query
    channels = ServerSocket(handler, [EXEC])
    argv = program(query["command"], terminal)
    ours, its = pty.openpty() if terminal else (-1, -1)
    try:
        if terminal:
            process = subprocess.Popen(["setsid", "-c", "-w", *argv], stdin=its, stdout=its, stderr=its)
        else:
            stdin = subprocess.PIPE if has_input else subprocess.DEVNULL
            process = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        channels.send(b"\3" + json.dumps({"status": "Failure", "message": f"exec failed: {error}"}).encode())
        channels.close()
        return
    with process:
        channels.send(b"", _PING)
        if terminal:
            os.close(its)
            outputs = [(1, ours)]
        else:
            assert process.stdout
            assert process.stderr
            outputs = [(1, process.stdout.fileno()), (2, process.stderr.fileno())]
        copying = [
            threading.Thread(target=_copy, args=(channels, process, *each), daemon=True) for each in outputs
        ]
        for thread in copying:
            thread.start()
        feeding = threading.Thread(target=_feed, args=(channels, process, ours), daemon=True)
        feeding.start()
        code = process.wait()
        for thread in copying:
            thread.join()
        channels.send(b"\3" + json.dumps(_status(code if code >= 0 else 128 - code)).encode())
        channels.close()
        feeding.join()
    if terminal:
        os.close(ours)


def forward(handler: BaseHTTPRequestHandler, address: Callable[[int], tuple[str, int]]) -> None:
    """Answer a request for ``portforward``; `address` says where a port of the pod is on this machine."""
    (port,) = map(int, parse_qs(urlsplit(handler.path).query)["ports"])
    channels = ServerSocket(handler, [FORWARD])
    for channel in (b"\0", b"\1"):
        channels.send(channel + struct.pack("<H", port))
    try:
        target = socket.create_connection(address(port), 5)
    except OSError as error:
        channels.send(b"\1" + f"an error occurred forwarding {port}: {error}".encode())
        channels.close()
        return

    def answer() -> None:
        with suppress(OSError):
            while data := target.recv(4096):
                channels.send(b"\0" + data)
        channels.close()

    threading.Thread(target=answer, daemon=True).start()
    with target:
        while message := channels.receive():
            assert message[:1] == b"\0"
            target.sendall(message[1:])
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def _copy(channels: ServerSocket, process: "subprocess.Popen[bytes]", channel: int, fd: int) -> None:
    with suppress(OSError):  # of a terminal that nobody has open at the other end
        while not channels.is_gone and (data := os.read(fd, 32768)):
            channels.send(bytes([channel]) + data)
    if channels.is_gone:
        process.kill()  # what it writes would have no reader


def _feed(channels: ServerSocket, process: "subprocess.Popen[bytes]", terminal: int) -> None:
    with suppress(OSError, ValueError):
        while (message := channels.receive()) is not None:
            if message[:1] == b"\4":
                size = json.loads(message[1:])
                fcntl.ioctl(
                    terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                )
            elif message == b"\xff\0":
                if process.stdin:
                    process.stdin.close()
            elif process.stdin:
                process.stdin.write(message[1:])
                process.stdin.flush()
            else:
                os.write(terminal, message[1:])


def _status(code: int) -> dict[str, object]:
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
