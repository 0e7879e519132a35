"""The exception for a run that is not removed."""


class CannotRemove(Exception):
    """The exception for a run that is not removed, or only in part; the text says why."""
