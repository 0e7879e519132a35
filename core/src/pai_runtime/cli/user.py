"""The name of the user who runs the command."""

import getpass
import os


def user_name() -> str:
    """Return the name of the current user, or its number, since a container may have no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
