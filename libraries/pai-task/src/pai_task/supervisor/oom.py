"""A count of the processes in this cgroup that the kernel's out-of-memory killer has killed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    FileName = str | os.PathLike[str]


class OomKills:
    """A counter that starts now, of the task's memory cgroup or, where it has none, of the whole machine.

    With `is_shared`, other tasks are in that cgroup: it is not known whose process was killed.
    """

    def __init__(self, proc: FileName = "/proc", sys: FileName = "/sys", *, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        candidates = [*_cgroup_files(proc, sys), f"{proc}/vmstat"]
        self._counts = {path: count for path in candidates if (count := _count(path)) is not None}

    def since(self) -> int | None:
        """Return the number of kills since the start; None if that is unknown."""
        for path, before in self._counts.items():
            now = _count(path)
            if now is not None:
                return None if self._is_shared and now != before else now - before
        return None


def _cgroup_files(proc: FileName, sys: FileName) -> Iterator[str]:
    """Yield candidate files of cgroup version 2, alone or beside version 1, and of version 1, best first."""
    cgroups = [line.split(":", 2) for line in _lines(f"{proc}/self/cgroup") if line.count(":") > 1]
    v2 = [path for number, controllers, path in cgroups if (number, controllers) == ("0", "")]
    v1 = [path for _, controllers, path in cgroups if "memory" in controllers.split(",")]
    for paths, name in (
        (v2, "fs/cgroup{}/memory.events"),
        (v2, "fs/cgroup/unified{}/memory.events"),
        (v1, "fs/cgroup/memory{}/memory.oom_control"),
    ):
        for path in paths[:1]:
            # Without a cgroup namespace, a container sees its own cgroup at the top.
            for own in dict.fromkeys((path.rstrip("/"), "")):
                yield f"{sys}/{name.format(own)}"


def _count(path: str) -> int | None:
    for line in _lines(path):
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.isdecimal():
            return int(count)
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
