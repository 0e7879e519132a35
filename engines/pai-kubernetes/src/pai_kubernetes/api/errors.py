"""What went wrong with a request to an API server."""

from collections.abc import Sequence

from pai_runtime.engines.cluster import ClusterError
from pai_runtime.task.record import record


@record(frozen=True)
class Cause:
    """One cause in a ``Status``: what is wrong with a field, such as ``spec.replicatedJobs[0].name``."""

    field: str
    message: str


class ApiError(ClusterError):
    """The server refused, or could not be asked. The text is for people.

    `status` is that of HTTP, 0 if no answer came; `reason` as in the ``Status``, such as ``AlreadyExists``.
    Unless it was `sent`, nothing can come of the request: there was no login, or no connection.
    `may_pass`: another try may not meet it; `pause` is how many seconds the server asks to wait before that.
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
