"""Why a bundle cannot be made."""


class CannotBundle(Exception):
    """What is missing for a bundle, and what to do about it."""
