"""The kernel's system calls for mounts."""

import ctypes
import os
from pathlib import Path

from pai_runtime.engines.local.namespaces import REFUSALS, Refused

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_SYS_MOUNT_SETATTR = 442

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount something at `target`. Raises `Refused` or OSError with that path."""
    given = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*given, ctypes.c_ulong(flags), os.fsencode(options)), target)


def make_read_only(path: str, *, below: bool = True) -> None:
    """Make a mount read-only, and with `below` all mounts below it (Linux 5.12)."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY)
    flags, size = _AT_RECURSIVE if below else 0, ctypes.sizeof(attributes)
    given = (_AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(size))
    _check(_libc.syscall(_SYS_MOUNT_SETATTR, *given), path)


def enter_root() -> None:
    """Make the working directory, which is a mount, the root, and detach the old one."""
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def mount_points() -> list[Path]:
    """Return the paths of all mount points."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return [Path(os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1"))) for line in lines]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        kind = Refused if number in REFUSALS else OSError
        raise kind(number, os.strerror(number), what)
