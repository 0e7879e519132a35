"""How many processes the kernel has ended for want of memory, where this process counts."""

import re
from pathlib import Path

_V1 = re.compile(r"^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(/.*)$", re.MULTILINE)
_V2 = re.compile(r"^0::(/.*)$", re.MULTILINE)
_FILES = (
    (_V2, "fs/cgroup{}/memory.events"),
    (_V2, "fs/cgroup/unified{}/memory.events"),  # beside v1
    (_V1, "fs/cgroup/memory{}/memory.oom_control"),
)
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class OomKills:
    """Counts from now on: in the task's memory cgroup, or where it has none, on the whole machine."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._candidates = [*_cgroup_files(proc, sys), proc / "vmstat"]
        self._counts = {path: count for path in self._candidates if (count := _count(path)) is not None}

    def since(self) -> int | None:
        """How many there were; None if nothing here counts them."""
        for path, before in self._counts.items():
            now = _count(path)
            if now is not None:
                return now - before
        return None


def _cgroup_files(proc: Path, sys: Path) -> list[Path]:
    try:
        cgroups = (proc / "self" / "cgroup").read_text()
    except OSError:
        return []
    found = []
    for pattern, name in _FILES:
        if match := pattern.search(cgroups):
            own = match[1].rstrip("/")
            # Without a cgroup namespace, a container sees its own cgroup at the top.
            found += [sys / name.format(path) for path in dict.fromkeys((own, ""))]
    return found


def _count(path: Path) -> int | None:
    try:
        match = _COUNT.search(path.read_text())
    except OSError:
        return None
    return int(match[1]) if match else None
