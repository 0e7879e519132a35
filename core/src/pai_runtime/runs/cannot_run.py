"""What whoever starts a run raises before any of it has started."""


class CannotRun(Exception):
    """The job cannot be run here; nothing has been started."""
