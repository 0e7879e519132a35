"""Errors of requests to an API server."""

from collections.abc import Sequence
from dataclasses import dataclass

from pai_runtime.engine import ClusterError


@dataclass(frozen=True)
class Cause:
    """One cause in a ``Status``: the fault of a field, such as ``spec.replicatedJobs[0].name``."""

    field: str
    message: str


class ApiError(ClusterError):
    """The exception for a request that the server refused, or that could not be made; the text is for people.

    `status` is the HTTP status, 0 without an answer; `reason` is as in the ``Status``, such as
    ``AlreadyExists``. Unless it was `sent`, the request had no effect: there was no login, or no connection.
    `may_pass` means that a retry may succeed; `pause` is how many seconds the server asks to wait before it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: Sequence[Cause] = (),
        sent: bool = True,
        may_pass: bool = False,
        pause: float = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.sent = sent
        self.may_pass = may_pass
        self.pause = pause
