"""The exception for a run that cannot start."""


class CannotRun(Exception):
    """The job cannot be run here; nothing has been started."""
