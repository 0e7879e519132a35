"""The names of task roles as FrameworkController spells them."""

from __future__ import annotations


def framework_name(role: str) -> str:
    """The name by which FrameworkController, which knows no capitals and no ``_``, calls a task role."""
    return "".join(letter for letter in role.lower() if letter.isascii() and letter.isalnum())
