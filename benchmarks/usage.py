"""usage: what it costs a supervisor to know the memory of its task, for as long as the task lives.

The CPU time of the supervisor alone, over tasks of some processes, threads and memory that do nothing for
`LONG` seconds, less that of ones of `SHORT` seconds: what the start costs is in both. Target: 0.5 % of a
processor. Beside it, what one look by `ps` costs, once a second.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import PROGRAM, job, table, write_job

SHORT, LONG = 5, 35
MOST = 0.005
SLEEPS = """
import os, sys, threading, time
seconds, processes, threads, memory = map(int, sys.argv[1:])
held = bytearray(os.urandom(1 << 20)) * memory
until = time.monotonic() + seconds
for _ in range(processes - 1):
    if not os.fork():
        held[: len(held) // 2 : 4096] = bytes(len(held[: len(held) // 2 : 4096]))
        break
for _ in range(threads - 1):
    threading.Thread(target=time.sleep, args=(seconds,), daemon=True).start()
time.sleep(until - time.monotonic())
"""
TASKS = {"1 process": (1, 1, 10), "10 processes of 100 MiB": (10, 1, 100), "8 of 64 threads": (8, 64, 50)}
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> list[str]:
    missed, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in TASKS.items():
            short, long = (_supervisor_cpu(Path(folder), seconds, shape) for seconds in (SHORT, LONG))
            share, ps = (long - short) / (LONG - SHORT), _ps()
            rows.append((name, f"{share:.2%}", f"{MOST:.2%}", f"{ps:.2%}"))
            if share > MOST:
                missed.append(f"to know what {name} use takes {share:.2%} of a processor")
    table(("task", "supervisor", "target", "ps, each second"), rows)
    return missed


def _supervisor_cpu(folder: Path, seconds: int, shape: tuple[int, int, int]) -> float:
    """Return the CPU seconds of the supervisor of such a task, as it tells just before the task ends."""
    program = folder / "program.py"
    program.write_text(SLEEPS, "utf-8")
    words = " ".join(map(str, (seconds, *shape)))
    # The supervisor is the parent of the shell: its own times are fields 12 and 13 after its name.
    look = """awk '{ sub(/.*[)]/, ""); print $12 + $13 }' /proc/$PPID/stat"""
    path = write_job(folder / "job.yaml", job([f"{sys.executable} {program} {words}", look]))
    run = [PROGRAM, "run", str(path), "--out", str(folder / f"{time.time()}")]
    said = subprocess.run(run, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return int(said.split()[-1]) / _TICK


def _ps() -> float:
    began = time.monotonic()
    for _ in range(10):
        subprocess.run(["ps", "-eo", "pid,ppid,rss"], check=True, stdout=subprocess.DEVNULL)
    return (time.monotonic() - began) / 10
