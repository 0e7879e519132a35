"""What a task uses: its peaks of memory and GPU memory, its CPU time, and how busy its GPUs are.

Memory is what a kernel cannot take back from processes: anonymous and shared pages. Pages of files are left
out, as they are where a limit ends a container; so is `memory.peak` of a cgroup, which counts files that were
read. A peak between two samples can be missed.
"""

from __future__ import annotations

import os
import time
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from pai_task.supervisor.gpu_memory import gpu_memory, has_devices
from pai_task.supervisor.nvidia_smi import GpuSamples, nvidia_smi
from pai_task.supervisor.process_tree import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from pai_task.plan import Plan
    from pai_task.supervisor.loop import Loop
    from pai_task.supervisor.spawning import Program

_FIRST = 0.1
_LONGEST = 1.0
_SHARE = 0.003
_FREE = 0.1
"""Seconds of a processor that sampling may take at first, and the share of one in the long run."""
_FEW = 3
"""Samples of which fewer say nothing, as the command was too short."""


_GPUS_AFTER = 5.0
"""Seconds until the GPUs are looked at, which takes a process."""


class Usage:
    """What a task with these variables uses, from now on."""

    def __init__(self, loop: Loop, variables: Mapping[str, str]) -> None:
        self._loop = loop
        self._began = time.monotonic()
        self._wait = _FIRST
        self._taken = 0.0
        self._samples = self._peak = self._gpu_peak = 0
        self._has_gpus = has_devices()
        self._gpus: GpuSamples | None = None
        loop.at(self._began + self._wait, self._sample)
        if program := nvidia_smi(variables.get("CUDA_VISIBLE_DEVICES"), variables.get("PATH", "")):
            loop.at(self._began + _GPUS_AFTER, lambda: self._sample_gpus(program))

    def measured(self) -> dict[str, Any]:
        """Return what was used until now: MiB of memory at most, and seconds of all processors."""
        children = getrusage(RUSAGE_CHILDREN)
        peak = self._peak
        if self._samples < _FEW and children.ru_maxrss > 2 * getrusage(RUSAGE_SELF).ru_maxrss:
            peak = max(peak, children.ru_maxrss)  # of one process, with pages of files
        gpus = self._gpus or GpuSamples()
        gpu_peak = max(-(-self._gpu_peak // 1024), gpus.memory_peak)
        return {
            "memoryPeakMB": -(-peak // 1024),
            "cpuSeconds": round(children.ru_utime + children.ru_stime, 2),
            **({"gpuMemoryPeakMB": gpu_peak} if gpu_peak else {}),
            **({} if gpus.utilization is None else {"gpuUtilizationPercent": gpus.utilization}),
        }

    def _sample_gpus(self, program: Program) -> None:
        self._gpus = GpuSamples.of(program, self._loop)

    def _sample(self) -> None:
        began = time.thread_time()
        self._samples += 1
        self._peak = max(self._peak, _memory(os.getpid(), self._loop.keepers, self._peak))
        if self._has_gpus:
            self._gpu_peak = max(self._gpu_peak, gpu_memory(descendants(os.getpid())))
        self._taken += time.thread_time() - began
        self._wait = min(2 * self._wait, _LONGEST)
        affordable = self._began + (self._taken - _FREE) / _SHARE
        self._loop.at(max(time.monotonic() + self._wait, affordable), self._sample)


def requested(plan: Plan) -> dict[str, int]:
    """Return what the task requests; empty if its platform does not say."""
    words = plan.shared.platform.get(f"PAI_RESOURCE_{plan.role}", "").split(",")
    if len(words) < 3 or not all(map(str.isdecimal, words[:3])):  # noqa: PLR2004 - gpu, cpu, memoryMB
        return {}
    gpu, cpu, memory = map(int, words[:3])
    return {"memoryMB": memory, "cpu": cpu, "gpu": gpu}


def _memory(ancestor: int, but: Collection[int], enough: int) -> int:
    """Return the KiB that descendants of a process use, roughly if that is no more than `enough`.

    What several of them share is in the first, quick sum for each of them, and once in the second. That one
    is wrong if some started or ended meanwhile, as each of them has a part of what they share; then it is
    that of the largest.
    """
    quick = _each(ancestor, but)
    most = sum(quick.values())
    if most <= enough or len(quick) == 1:
        return most
    exact = sum(_own_part(pid, rss) for pid, rss in quick.items())
    return exact if _each(ancestor, but).keys() == quick.keys() else max(quick.values())


def _each(ancestor: int, but: Collection[int]) -> dict[int, int]:
    """Return the KiB of each living descendant except those in `but`, with all that it shares."""
    names = b"RssAnon:", b"RssShmem:"
    found = {pid: _fields(f"/proc/{pid}/status", names) for pid in descendants(ancestor) if pid not in but}
    return {pid: size for pid, size in found.items() if size}


def _own_part(pid: int, rss: int) -> int:
    """Return the KiB of a process, of what it shares only its part; `rss` if that is not told."""
    # The fields are there since Linux 5.4; the file is for those who may trace the process.
    size = _fields(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))
    return rss if size is None else size


def _fields(path: str, names: Iterable[bytes]) -> int | None:
    """Return the sum of fields in KiB; None if they are not there, or not for us."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = b"\n" + file.read(1 << 16)
    except OSError:
        return None
    found = [text.partition(b"\n" + name)[2].split(None, 1)[:1] for name in names]
    return sum(int(first) for (first,) in filter(None, found)) if any(found) else None
