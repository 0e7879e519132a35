"""Checking the mounts of a task: distinct paths, none hidden by another."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from pai_runtime.task.plan import Mount, UseRecord

FOLDERS_VARIABLE = "PAI_LOCAL_FOLDERS"
"""Tells a task, a path in each line, where its engine has a folder for an NFS export."""

_NEEDED = ("/usr/local/pai", "/proc", "/sys", "/dev")


def conflict(mount: Mount, before: Iterable[tuple[Mount, UseRecord]]) -> str | None:
    """Why a mount cannot be there: because of what the task needs, or of one that comes before it."""
    for needed in _NEEDED:
        if _hides(mount.path, needed):
            return f"mounts something at {mount.path}, which would hide {needed}; choose another path"
    for other, use in before:
        if mount.path == other.path and mount != other:
            return (
                f"mounts {mount.source} at {mount.path}, where {use.label} mounts {other.source} differently"
            )
        if mount.path != other.path and _hides(mount.path, other.path):
            return (
                f"mounts something at {mount.path}, which hides what {use.label} mounts at {other.path}; "
                "the outer one has to come first"
            )
    return None


def _hides(outer: str, inner: str) -> bool:
    return PurePosixPath(inner).is_relative_to(outer)
