"""Checks of a task's mounts: distinct paths, none hidden by another, none over the platform's files.

The rule is the same whichever engine runs the job.
"""

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Final

from pai_task.paths import CODE, CONFIG, IMAGE, IMAGE_SCRIPTS, MACHINE, SECRETS, VOLUME
from pai_task.plan import Mount, UseRecord
from pai_task.record import replace

FOLDERS_VARIABLE = "PAI_LOCAL_FOLDERS"
"""The variable that lists, one path per line, the NFS exports that the engine provides as directories."""

_PLATFORM: Final = (
    *(VOLUME, CONFIG, CODE, SECRETS),
    *(IMAGE, MACHINE, IMAGE_SCRIPTS),
    *("/dev", "/proc", "/sys"),
)
"""The task's folder, its pod's volumes, the runtime's code, policy and init scripts, kernel file systems."""

_SYSTEM: Final = (
    *("/bin", "/etc", "/lib", "/lib64", "/sbin"),
    *("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/sbin"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/sbin"),
)
"""Programs that hooks start, possibly with secrets, and the configuration of these programs."""

_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4095
"""The kernel's limits (``NAME_MAX``, ``PATH_MAX``), in bytes."""

RESERVED: Final = (*_PLATFORM, *_SYSTEM)
"""Directories at, over or inside which a job may mount nothing."""


def conflict(
    mount: Mount, before: Iterable[tuple[Mount, UseRecord]], real: Callable[[str], str] = str
) -> str | None:
    """Return why a mount is not possible: it collides with a reserved path or an earlier mount.

    None if it is. `real` resolves the links in a path, where they are known.
    """
    longest = max(len(name.encode()) for name in mount.path.split("/"))
    if longest > _LONGEST_NAME or len(mount.path.encode()) > _LONGEST_PATH:
        length = len(mount.path.encode())
        return (
            f"mounts something at a path of {length} bytes with a name of {longest}; "
            f"at most {_LONGEST_PATH} and {_LONGEST_NAME} are possible"
        )
    path = real(mount.path)
    at = mount.path if path == mount.path else f"{mount.path}, which is {path} here"
    for reserved in RESERVED:
        if overlap(path, real(reserved)):
            return f"mounts something at {at}, but {reserved} has to stay as it is; choose another path"
    for other, use in before:
        taken = real(other.path)
        if path == taken and mount != replace(other, path=mount.path):
            return f"mounts {mount.source} at {at}, where {use.label} mounts {other.source} differently"
        if path != taken and PurePosixPath(taken).is_relative_to(path):
            return (
                f"mounts something at {at}, which hides what {use.label} mounts at {other.path}; "
                "the outer one has to come first"
            )
    return None


def overlap(one: str, other: str) -> bool:
    """Return whether one of two paths equals the other or is inside it."""
    return PurePosixPath(one).is_relative_to(other) or PurePosixPath(other).is_relative_to(one)
