"""Names of task roles in FrameworkController's spelling."""

from __future__ import annotations


def framework_name(role: str) -> str:
    """Return a task role's name for FrameworkController, which allows neither capitals nor ``_``."""
    return "".join(letter for letter in role.lower() if letter.isascii() and letter.isalnum())
