"""The exceptions for a run that cannot start."""


class CannotRun(Exception):
    """The job cannot be run here; nothing has been started."""


class MayBeLeft(CannotRun):
    """The job cannot be run, and part of it may be left: the text says what, and how to remove it.

    `interrupted`: because somebody has stopped it meanwhile.
    """

    def __init__(self, message: str, *, interrupted: bool) -> None:
        super().__init__(message)
        self.interrupted = interrupted
