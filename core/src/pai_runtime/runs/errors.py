"""Why something cannot be done with a run."""


class CannotRun(Exception):
    """The job cannot be run here; nothing has been started."""


class MayBeLeft(CannotRun):
    """The job cannot be run, and part of it may be left: the text says what, and how to remove it.

    `interrupted`: because somebody has stopped it meanwhile.
    """

    def __init__(self, message: str, *, interrupted: bool) -> None:
        super().__init__(message)
        self.interrupted = interrupted


class CannotEnter(Exception):
    """A program has not been started in a task; `status` is what stands for its exit status."""

    def __init__(self, why: str, status: int = 2) -> None:
        super().__init__(why)
        self.status = status


class CannotRemove(Exception):
    """Why the run stays, or what of it does."""


class ClusterError(Exception):
    """A cluster cannot be asked, or refuses; the message says whose fault it is and what to do."""
