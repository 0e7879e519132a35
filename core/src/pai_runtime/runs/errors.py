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
