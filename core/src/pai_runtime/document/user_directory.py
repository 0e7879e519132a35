"""The user's directories of the XDG Base Directory Specification."""

import os
from pathlib import Path


def user_directory(variable: str, usual: str) -> Path | None:
    """Return ``pai-runtime`` below the directory in `variable`, or below ``~/usual``; None without a home."""
    base = Path(os.environ.get(variable, ""))
    try:
        base = base if base.is_absolute() else Path.home() / usual
    except RuntimeError:
        return None
    return base / "pai-runtime"
