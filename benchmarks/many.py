"""many: a job of 500 tasks that all run at once, beside 500 bare Python processes.

Targets: until all run, at most 8 x the CPU time of the bare processes, and at most 8 MB of memory each.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import PROGRAM, job, table, times, write_job
from pai_task.supervisor.process_tree import descendants

TASKS = 500
MOST_TIMES = 8
MOST_MEGABYTES = 8
SLEEP = [sys.executable, "-I", "-S", "-c", "import time; print(flush=True); time.sleep(1e6)"]


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        rows = {f"{TASKS} tasks": _tasks(Path(folder)), f"{TASKS} x python -I -S": _bare()}
    tasks, bare = rows.values()
    table(
        ("", "until all run", "", "CPU", "", "memory of each", "", "until all have ended"),
        [
            (
                name,
                f"{each.start:.1f} s",
                times(each.start / bare.start),
                f"{each.cpu:.1f} s",
                times(each.cpu / bare.cpu),
                f"{each.memory / 1024:.1f} MB",
                times(each.memory / bare.memory),
                f"{each.end:.1f} s",
            )
            for name, each in rows.items()
        ],
    )
    ratio, megabytes = tasks.cpu / bare.cpu, tasks.memory / 1024
    print(f"\n  CPU until all run: {times(ratio)} of bare processes (target: {times(MOST_TIMES)})")
    print(f"  memory of each: {megabytes:.1f} MB (target: {MOST_MEGABYTES} MB)")
    missed = [f"{TASKS} tasks take {times(ratio)} of bare processes"] if ratio > MOST_TIMES else []
    return [*missed, *([f"a task takes {megabytes:.1f} MB"] if megabytes > MOST_MEGABYTES else [])]


class _Figures(NamedTuple):
    """Seconds until all run and their CPU time, KB of memory of each, and seconds until all have ended."""

    start: float
    cpu: float
    memory: float
    end: float


def _tasks(folder: Path) -> _Figures:
    document = job(["echo up", "exec sleep infinity"])
    document["taskRoles"]["worker"]["instances"] = TASKS
    path = write_job(folder / "job.yaml", document)
    began = time.perf_counter()
    with subprocess.Popen(
        [PROGRAM, "run", "--out", str(folder / "run"), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as engine:
        assert engine.stdout is not None  # noqa: S101 - for the type checker
        for _ in range(TASKS):
            if not engine.stdout.readline():
                raise RuntimeError(f"the run ended with {engine.wait()}")
        up, cpu = time.perf_counter(), _cpu_below(engine.pid)
        states = (folder / "run" / "worker").glob("*/state.json")
        memory = _proportional(json.loads(state.read_text())["pid"] for state in states)
        engine.send_signal(signal.SIGINT)
        engine.wait()
    return _Figures(up - began, cpu, memory, time.perf_counter() - up)


def _bare() -> _Figures:
    began = time.perf_counter()
    processes = [subprocess.Popen(SLEEP, stdout=subprocess.PIPE) for _ in range(TASKS)]
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        process.stdout.read(1)
    up, cpu = time.perf_counter(), sum(_cpu(process.pid) for process in processes)
    memory = _proportional(process.pid for process in processes)
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()
    return _Figures(up - began, cpu, memory, time.perf_counter() - up)


def _cpu(pid: int) -> float:
    """Seconds of CPU time of a process with one thread, and of its children that have ended.

    Its own are precise: those that ``stat`` has are too coarse for a process that takes a few milliseconds.
    """
    own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    children = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    return own + sum(map(int, children)) / os.sysconf("SC_CLK_TCK")


def _cpu_below(ancestor: int) -> float:
    return sum(_cpu(pid) for pid in (ancestor, *descendants(ancestor)))


def _proportional(pids: Iterable[int]) -> float:
    """Kilobytes of memory for each of the processes; what several share is divided among them."""
    sizes = []
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        match = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
        sizes.append(int(match[1]) if match else 0)
    return sum(sizes) / len(sizes)
