"""Checking the mounts of a task: distinct paths, none hidden by another, none where the platform is.

The rule is the same whichever engine runs the job.
"""

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Final

from pai_runtime.task.paths import CODE, CONFIG, IMAGE, IMAGE_SCRIPTS, MACHINE, SECRETS, VOLUME
from pai_runtime.task.plan import Mount, UseRecord
from pai_runtime.task.record import replace

FOLDERS_VARIABLE = "PAI_LOCAL_FOLDERS"
"""Tells a task, a path in each line, where its engine has a folder for an NFS export."""

_PLATFORM: Final = (
    *(VOLUME, CONFIG, CODE, SECRETS),
    *(IMAGE, MACHINE, IMAGE_SCRIPTS),
    *("/dev", "/proc", "/sys"),
)
"""The task's folder, volumes of its pod, the runtime image's code, policy and init scripts, the kernel's."""

_SYSTEM: Final = (
    *("/bin", "/etc", "/lib", "/lib64", "/sbin"),
    *("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/sbin"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/sbin"),
)
"""The programs that hooks of plugins start, with secrets in their hands, and what configures these."""

_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4095
"""Bytes that the kernel takes."""

RESERVED: Final = (*_PLATFORM, *_SYSTEM)
"""Nothing of a job is mounted at, over or inside one of these."""


def conflict(
    mount: Mount, before: Iterable[tuple[Mount, UseRecord]], real: Callable[[str], str] = str
) -> str | None:
    """Why a mount cannot be there: because of what has to stay as it is, or of one that comes before it.

    `real` resolves the links in a path, where they are known.
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
    """Whether one of two paths is the other, or inside of it."""
    return PurePosixPath(one).is_relative_to(other) or PurePosixPath(other).is_relative_to(one)
