"""Errors of requests to an OpenPAI cluster."""

from pai_runtime.engine import ClusterError


class ApiError(ClusterError):
    """The exception for a request that the server refused, or that could not be made; the text is for people.

    `status` is the HTTP status, 0 without an answer; `code` is the server's, such as ``NoJobError``, if any.
    Unless it was `sent`, the request had no effect. `may_pass` means that a retry may succeed,
    `pause` is how many seconds the server asks to wait before it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        sent: bool = True,
        may_pass: bool = False,
        pause: float = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.sent = sent
        self.may_pass = may_pass
        self.pause = pause
