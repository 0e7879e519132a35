"""The exception for a run that is not removed."""


class CannotRemove(Exception):
    """Why the run stays, or what of it does."""
