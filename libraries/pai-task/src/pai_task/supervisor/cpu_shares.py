"""The CPUs of each of many tasks that share those of this process."""

from __future__ import annotations

import os

from pai_task.supervisor.process_tree import read_proc


def cpu_shares(most: int, cpus: int, sys: str = "/sys") -> list[set[int]]:
    """Return the CPUs of each of `most` tasks at a time, which asked for `cpus` each.

    They are empty sets, for any CPU, where there are not so many, or this process is not bound to its own: it
    may use the whole machine, and the tasks asked for less.
    """
    ours = os.sched_getaffinity(0)
    each = len(ours) // most
    if each < cpus or (len(ours) == os.cpu_count() and most * cpus < len(ours)):
        return [set[int]() for _ in range(most)]
    in_order = sorted(ours, key=lambda cpu: _place(cpu, sys))
    return [set(in_order[at * each : (at + 1) * each]) for at in range(most)]


def _place(cpu: int, sys: str) -> tuple[int, int, int]:
    """Return the package, the core (as the number of its first CPU) and the number of a CPU."""
    topology = f"{sys}/devices/system/cpu/cpu{cpu}/topology"
    package = read_proc(f"{topology}/physical_package_id") or b"-1"
    siblings = read_proc(f"{topology}/thread_siblings_list") or b"%d" % cpu
    return int(package), int(siblings.replace(b"-", b",").split(b",")[0]), cpu
