"""The result of one HTTP request: an answer, or the reason why there is none."""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from pai_document.printable import printable
from pai_runtime.plugin.backoff import retry_after
from pai_task.record import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

_PIECE = 1 << 16
_PROXY_WORDS = re.compile("(?<=^Tunnel connection failed: ...).*", re.DOTALL)
"""The text of a proxy after its status, which could repeat what it was sent."""


class NoAnswer(Exception):
    """The exception for a request without a complete answer; `permanent` means that a retry is useless."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


@record(frozen=True)
class Answer:
    """A complete answer with any status; a redirect is an answer too, and is not followed."""

    status: int
    headers: Message
    body: bytes

    @property
    def may_pass(self) -> bool:
        """Whether the answer is an error that a retry may not meet: 408, 429 or 5xx."""
        overloaded = self.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
        return overloaded or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def pause(self) -> float:
        """The number of seconds that the server asks to wait before a retry; 0 if it does not say."""
        return retry_after(self.headers["Retry-After"], time.time())


def read_body(read: Callable[[int], bytes], most: int) -> bytes:
    """Read a body piece by piece, regardless of its announced length.

    Raises `NoAnswer` above `most` bytes.
    """
    body = bytearray()
    while piece := read(_PIECE):
        body += piece
        if len(body) > most:
            raise too_large(most)
    return bytes(body)


def no_answer(error: BaseException) -> NoAnswer:
    """Return the `NoAnswer` for an error, in words that repeat nothing of the request."""
    import ssl  # noqa: PLC0415 - slow, and whoever has asked a server has it

    return NoAnswer(_reason(error), permanent=isinstance(error, ssl.SSLCertVerificationError))


def cause_of(error: BaseException) -> BaseException:
    """Return the cause of an error of urllib3, whose own text repeats the request."""
    while True:
        causes = [each for each in (error.__cause__, *error.args) if isinstance(each, Exception)]
        if not causes:
            return error
        error = causes[0]


def too_large(most: int) -> NoAnswer:
    """Return the `NoAnswer` for a response of more than `most` bytes."""
    return NoAnswer(f"the response is larger than {most} bytes", permanent=True)


def _reason(error: BaseException) -> str:
    """Return why a request failed; of the server's text only a little, and only if printable."""
    import ssl  # noqa: PLC0415 - as above
    from http.client import IncompleteRead, RemoteDisconnected  # noqa: PLC0415 - as above

    if isinstance(error, TimeoutError):
        return "no complete response in time"
    if isinstance(error, IncompleteRead):
        return "the connection was closed in the middle of the response"
    if isinstance(error, RemoteDisconnected):
        return "the connection was closed before a response came"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return printable(error.strerror or _PROXY_WORDS.sub("", str(error)))
    return "the response is not HTTP"
