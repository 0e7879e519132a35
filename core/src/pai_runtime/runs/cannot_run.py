"""The exceptions for a run that cannot start."""


class CannotRun(Exception):
    """The exception for a job that cannot be run here; nothing has been started."""


class MayBeLeft(CannotRun):
    """The exception for a job that cannot be run, and of which something may be left.

    The text says what is left and how to remove it. `interrupted` is true if somebody stopped the start.
    """

    def __init__(self, message: str, *, interrupted: bool) -> None:
        super().__init__(message)
        self.interrupted = interrupted
