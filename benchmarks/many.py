"""many: a job of 500 tasks that all run at once, beside 500 bare Python processes.

Targets: all run within 8 x the time of the bare processes, with at most 8 MB of memory each.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measure import PROGRAM, job, table, times, write_job

TASKS = 500
MOST_TIMES = 8
MOST_MEGABYTES = 8
SLEEP = [sys.executable, "-I", "-S", "-c", "import time; print(flush=True); time.sleep(1e6)"]


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        rows = {f"{TASKS} tasks": _tasks(Path(folder)), f"{TASKS} x python -I -S": _bare()}
    (start, each, _), (*reference, _) = rows.values()
    table(
        ("", "until all run", "", "memory of each", "", "until all have ended"),
        [
            (
                name,
                f"{start:.1f} s",
                times(start / reference[0]),
                *_memory(each, reference[1]),
                f"{end:.1f} s",
            )
            for name, (start, each, end) in rows.items()
        ],
    )
    ratio, megabytes = start / reference[0], each / 1024
    print(f"\n  until all run: {times(ratio)} of bare processes (target: {times(MOST_TIMES)})")
    print(f"  memory of each: {megabytes:.1f} MB (target: {MOST_MEGABYTES} MB)")
    missed = [f"{TASKS} tasks take {times(ratio)} of bare processes"] if ratio > MOST_TIMES else []
    return [*missed, *([f"a task takes {megabytes:.1f} MB"] if megabytes > MOST_MEGABYTES else [])]


def _memory(each: float, reference: float) -> tuple[str, str]:
    return f"{each / 1024:.1f} MB", times(each / reference)


def _tasks(folder: Path) -> tuple[float, float, float]:
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
        up = time.perf_counter()
        states = (folder / "run" / "worker").glob("*/state.json")
        memory = _proportional(json.loads(state.read_text())["pid"] for state in states)
        engine.send_signal(signal.SIGINT)
        engine.wait()
    return up - began, memory, time.perf_counter() - up


def _bare() -> tuple[float, float, float]:
    began = time.perf_counter()
    processes = [subprocess.Popen(SLEEP, stdout=subprocess.PIPE) for _ in range(TASKS)]
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        process.stdout.read(1)
    up = time.perf_counter()
    memory = _proportional(process.pid for process in processes)
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()
    return up - began, memory, time.perf_counter() - up


def _proportional(pids: Iterable[int]) -> float:
    """Kilobytes of memory for each of the processes; what several share is divided among them."""
    sizes = []
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        match = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
        sizes.append(int(match[1]) if match else 0)
    return sum(sizes) / len(sizes)
