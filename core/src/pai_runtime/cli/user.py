"""The name of the user who runs the command."""

import getpass
import os


def user_name() -> str:
    """Who runs the job; in a container the user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
