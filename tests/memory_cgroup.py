"""Cgroups that limit memory."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import content, until


def _memory_cgroups() -> Iterator[tuple[Path, str, str]]:
    """Folders in which a memory cgroup may be made, nearest first, with its files for memory and for swap."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            top, files = "/sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        elif controllers == "":
            top, files = "/sys/fs/cgroup", ("memory.max", "memory.swap.max")
        else:
            continue
        own = Path(path.lstrip("/"))
        for folder in (own, *own.parents):
            yield Path(top, folder), *files


@contextmanager
def memory_cgroup(most: int) -> Iterator[Path]:
    """A cgroup with so many bytes of memory and no swap; raises PermissionError where none can be made."""
    for parent, memory, swap in _memory_cgroups():
        cgroup = parent / f"pai-test-{os.getpid()}"
        try:
            cgroup.mkdir()
        except OSError:
            continue
        try:
            if _limited(cgroup / memory, most):
                _limited(cgroup / swap, most if "memsw" in swap else 0)
                yield cgroup
                return
        finally:
            _wait_until_empty(cgroup)
            cgroup.rmdir()
    raise PermissionError(errno.EPERM, "nobody may make a memory cgroup here")


def _wait_until_empty(cgroup: Path) -> None:
    """The last of its processes may be ending just now; a plain directory has no such file."""
    until(lambda: not content(cgroup / "cgroup.procs"))


def _limited(file: Path, most: int) -> bool:
    """Whether a limit could be set: a cgroup has no such file if its parent does not pass the control on."""
    try:
        with file.open("r+") as limit:
            limit.write(str(most))
    except OSError:
        return False
    return True
