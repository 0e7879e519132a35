"""Programs in the containers of pods, by WebSocket: bytes on numbered channels, in both directions."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import whole, words
from pai_kubernetes.api.paths import pod_exec
from pai_network.answer import NoAnswer
from pai_network.fields import json_object, mappings

PROTOCOL: Final = "v5.channel.k8s.io"
"""The first version by which the end of standard input can be told; of Kubernetes 1.30 and newer."""
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_CLOSE: Final = 255
_PIECE: Final = 1 << 15


class PodExec:
    """A program in a container; one thread receives, any thread may send or close. Raises `ApiError`."""

    def __init__(
        self, api: Api, pod: str, container: str, argv: Sequence[str], *, stdin: bool, terminal: bool = False
    ) -> None:
        self._label = api.label
        query = [("container", container), *(("command", word) for word in argv), ("stdout", "true")]
        query += [("stdin", "true")] if stdin else []
        query += [("tty", "true")] if terminal else [("stderr", "true")]
        self._socket = api.websocket(pod_exec(api.namespace, pod), query, PROTOCOL)
        self.status: int | None = None

    def receive(self) -> tuple[int, bytes] | None:
        """Return the channel and data of the next output; None once the program has ended with `status`."""
        while self.status is None:
            try:
                message = self._socket.receive()
            except NoAnswer as error:
                raise self._broken(str(error)) from None
            if message is None:
                raise self._broken("it was closed before the program ended")
            channel, data = message[:1], message[1:]
            if channel == bytes([STATUS]):
                self.status = self._status_in(data)
            elif channel in (bytes([STDOUT]), bytes([STDERR])) and data:
                return channel[0], data
        return None

    def send(self, data: bytes) -> None:
        """Send standard input."""
        for start in range(0, len(data), _PIECE):
            self._send(bytes([STDIN]) + data[start : start + _PIECE])

    def end_input(self) -> None:
        """Say that standard input has ended."""
        self._send(bytes([_CLOSE, STDIN]))

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal."""
        self._send(bytes([RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode())

    def close(self) -> None:
        """Close the connection; the program may run on."""
        self._socket.close()

    def _send(self, message: bytes) -> None:
        with suppress(NoAnswer):  # who receives is told why, or that the program has ended
            self._socket.send(message)

    def _status_in(self, data: bytes) -> int:
        """Return the exit status in the `Status` that ends a program. Raises `ApiError` for any other."""
        status = json_object(data)
        if status is not None:
            if status.get("status") == "Success":
                return 0
            code = _exit_code(status)
            if code is not None:
                return code
        why = words(status, "message") or "the API server gives no reason"
        raise ApiError(f"{self._label}: {why}")

    def _broken(self, why: str) -> ApiError:
        return ApiError(f"{self._label}: the connection to the pod broke: {why}")


def _exit_code(status: dict[str, Any]) -> int | None:
    for cause in mappings(status, "details", "causes"):
        if cause.get("reason") == "ExitCode":
            return whole(cause, "message") & 0xFF
    return None
