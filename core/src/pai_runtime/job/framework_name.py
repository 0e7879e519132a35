"""The names of task roles as FrameworkController spells them."""

import re


def framework_name(role: str) -> str:
    """The name by which FrameworkController, which knows no capitals and no ``_``, calls a task role."""
    return re.sub("[^a-z0-9]", "", role.lower())
