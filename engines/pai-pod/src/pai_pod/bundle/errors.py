"""The exception for a bundle that cannot be made."""


class CannotBundle(Exception):
    """The exception for a bundle that cannot be made; it says what is missing, and what to do about it."""
