"""A port of this machine that leads to one of a pod, by the API server: a WebSocket for each connection."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import shown
from pai_kubernetes.api.paths import pod_port_forward
from pai_network.answer import NoAnswer
from pai_network.websocket import WebSocket

PROTOCOL: Final = "v4.channel.k8s.io"
MOST_CONNECTIONS: Final = 64
_DATA, _ERROR = b"\0", b"\1"
_OF_PORT: Final = 2
"""Length of the first message of each channel, without the channel: the number of the port."""
_PIECE: Final = 1 << 15
_HERE: Final = "127.0.0.1"


@contextmanager
def forwarded(api: Api, pod: str, port: int, say: Callable[[str], None]) -> Generator[int, None, None]:
    """Yield a port of this machine, the same one if it is free, that leads to a port of a pod.

    Raises `ApiError` if that is not possible, such as for lack of the right; `say` is told of later errors.
    """
    _connect(api, pod, port).close()
    with _listening(port) as listening:
        forwarding = _Forwarding(api, pod, port, say)
        threading.Thread(target=forwarding.serve, args=(listening,), daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # which ends `accept`


def _connect(api: Api, pod: str, port: int) -> WebSocket:
    return api.websocket(pod_port_forward(api.namespace, pod), [("ports", str(port))], PROTOCOL)


def _listening(port: int) -> socket.socket:
    for number in (port, 0):
        try:
            return socket.create_server((_HERE, number), backlog=MOST_CONNECTIONS)
        except OSError:  # in use, or for root only
            if not number:
                raise
    raise AssertionError


class _Forwarding:
    def __init__(self, api: Api, pod: str, port: int, say: Callable[[str], None]) -> None:
        self._api, self._pod, self._port, self._say = api, pod, port, say
        self._free = threading.Semaphore(MOST_CONNECTIONS)

    def serve(self, listening: socket.socket) -> None:
        """Forward all connections until the socket is shut down."""
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                self._free.acquire()
                threading.Thread(target=self._forward, args=(connection,), daemon=True).start()

    def _forward(self, connection: socket.socket) -> None:
        try:
            with connection, closing(_connect(self._api, self._pod, self._port)) as there:
                threading.Thread(target=_send, args=(connection, there), daemon=True).start()
                self._receive(there, connection)
        except (ApiError, NoAnswer) as error:
            self._say(f"a connection to port {self._port} failed: {error}")
        except OSError:
            pass  # who has connected is gone
        finally:
            self._free.release()

    def _receive(self, there: WebSocket, connection: socket.socket) -> None:
        begun = set[bytes]()
        while message := there.receive():
            channel, data = message[:1], message[1:]
            if channel not in begun:
                begun.add(channel)
                data = data[_OF_PORT:]
            if channel == _DATA and data:
                connection.sendall(data)
            elif channel == _ERROR and data:
                self._say(f"port {self._port} of the task: {shown(data.decode('utf-8', 'replace'))}")


def _send(connection: socket.socket, there: WebSocket) -> None:
    """Pass on what comes from this machine until its end, which also ends the other direction."""
    with suppress(OSError, NoAnswer):
        while data := connection.recv(_PIECE):
            there.send(_DATA + data)
    there.close()
