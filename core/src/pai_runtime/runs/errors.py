"""Why something cannot be done with a run."""


class CannotRun(Exception):
    """The exception for a job that cannot be run here; nothing has been started."""


class MayBeLeft(CannotRun):
    """The exception for a job that cannot be run, and of which something may be left.

    The text says what is left and how to remove it. `interrupted` is true if somebody stopped the start.
    """

    def __init__(self, message: str, *, interrupted: bool) -> None:
        super().__init__(message)
        self.interrupted = interrupted


class CannotEnter(Exception):
    """A program has not been started in a task; `status` is what stands for its exit status."""

    def __init__(self, why: str, status: int = 2) -> None:
        super().__init__(why)
        self.status = status


class CannotCopy(Exception):
    """The exception for files of a task that are not copied; the text says why."""


class CannotRemove(Exception):
    """The exception for a run that is not removed, or only in part; the text says why."""


class ClusterError(Exception):
    """The exception for a cluster that cannot be reached or refuses; the text says why and what to do."""


class RequestError(ClusterError):
    """The exception for a request that a server refused, or that could not be made; the text is for people.

    `status` is the HTTP status, 0 without an answer; `reason` is the server's word for the refusal, such as
    ``NoJobError``, if any. Unless it was `sent`, the request had no effect: there was no login, or no
    connection. `may_pass` means that a retry may succeed; `pause` is how many seconds the server asks to wait
    before it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        sent: bool = True,
        may_pass: bool = False,
        pause: float = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.sent = sent
        self.may_pass = may_pass
        self.pause = pause
