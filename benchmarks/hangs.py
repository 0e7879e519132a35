"""hangs: tasks that hang and tasks that do not, of real programs, and what it costs to find out.

Each kind of hang is a role of three ranks, of which the second is the culprit; PyTorch's gloo joins them,
where `/usr/bin/python3` has it (Debian: python3-torch); without it there are none. Targets, with
`after: 30s`: found within 60 s, the culprit told apart by `stacks`, and no report of a healthy program; the
stacks of 16 ranks in 2 s, and a watch that takes 0.5 % of a processor.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import PROGRAM, job, table, write_job

AFTER, WITHIN, STACKS_WITHIN, MOST_SHARE = 30, 60, 2.0, 0.005
RANKS, MANY = 3, 16
CULPRIT = 1
SYSTEM_PYTHON = "/usr/bin/python3"
_WIDTH = 70
_TICK = os.sysconf("SC_CLK_TCK")

_JOIN = """
import ctypes, os, signal, sys, threading, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(4)
for step in range(3):
    dist.all_reduce(x)
print("steps are done", flush=True)
"""
_REST = "\ndist.all_reduce(x)\n"
_LOADER = """
class Shards(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        if rank == 1 and index == 3:
            os.mkfifo("shard"); open("shard").read()
        return x
for batch in torch.utils.data.DataLoader(Shards(), num_workers=1):
    dist.all_reduce(x)
"""
GLOO_KINDS = {
    "stopped by SIGSTOP": "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)",
    "held GIL": "if rank == 1: ctypes.PyDLL(None).sleep(100000)",
    "mismatched collectives": "if rank == 1: dist.barrier()",
    "a rank that leaves the steps": "if rank == 1: time.sleep(100000)",
    "stuck read of a FIFO": "if rank == 1: os.mkfifo('shard'); open('shard').read()",
    "deadlock of threads": "if rank == 1: lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "lock of a file": "if rank == 1: import fcntl; f = open('l', 'w'); fcntl.flock(f, 2); "
    "os.fork() or time.sleep(100000); g = open('l', 'w'); fcntl.flock(g, 2)",
    "key that nobody sets": "if rank == 1: dist.distributed_c10d._get_default_store().get('never')",
}
KINDS = {
    **{name: f"{_JOIN}{culprit}{_REST}" for name, culprit in GLOO_KINDS.items()},
    "starved loader": f"{_JOIN}{_LOADER}",
}

_SILENT = 2 * AFTER
PROGRAMS = {
    "compiler": f"until = time.monotonic() + {_SILENT}\nwhile time.monotonic() < until: pass",
    "evaluation with pauses": f"for _ in range({_SILENT}): sum(range(10**5)); time.sleep(1)",
    "checkpoint to a slow disk": "f = open('c', 'wb', 0)\n"
    f"for _ in range({_SILENT}): f.write(bytes(10000)); os.fsync(f); time.sleep(1)",
    "event loop": f"import asyncio; asyncio.run(asyncio.sleep({_SILENT}))",
    "threads that sleep": "from concurrent.futures import ThreadPoolExecutor\n"
    f"with ThreadPoolExecutor(4) as pool: list(pool.map(time.sleep, [{_SILENT}] * 4))",
    "pool of idle processes": f"import multiprocessing\nwith multiprocessing.Pool(2): time.sleep({_SILENT})",
}
HEALTHY = {
    "sleep": f"sleep {_SILENT}",
    "pipeline": f"(sleep {_SILENT}; echo end) | cat | sort",
    "web server": f"timeout {_SILENT} {sys.executable} -m http.server 0 --bind 127.0.0.1 || true",
    "interactive shell": f"timeout {_SILENT} sh -c 'sleep 100000 | sh' || true",
    **{
        name: f"{sys.executable} -c {shlex.quote(f'import os, time{chr(10)}{program}')}"
        for name, program in PROGRAMS.items()
    },
}


def main() -> list[str]:
    has_gloo = subprocess.run([SYSTEM_PYTHON, "-c", "import torch.distributed"], check=False).returncode == 0
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        kinds = KINDS if has_gloo else {}
        with _running(Path(folder, "healthy"), _healthy()) as healthy:
            with _running(Path(folder, "hangs"), _hanging(kinds)) as hangs:
                missed += _found(hangs, kinds)
                missed += _cost()
            missed += _quiet(healthy)
        with _running(Path(folder, "many"), _ranks()) as many:
            missed += _stacks(many)
    return missed


@dataclass(frozen=True)
class _Run:
    """A run in the background."""

    folder: Path
    process: subprocess.Popen[bytes]

    def notes(self, role: str) -> dict[int, list[str]]:
        """What people are told of each task of a role."""
        found = {}
        for state in self.folder.glob(f"{role}/*/state.json"):
            found[int(state.parent.name)] = json.loads(state.read_text())["notes"]
        return {index: notes for index, notes in found.items() if notes}


@contextmanager
def _running(folder: Path, document: Mapping[str, Any]) -> Iterator[_Run]:
    """Start a run, and cancel it at the end."""
    folder.mkdir()
    path = write_job(folder / "job.yaml", document)
    argv = [PROGRAM, "run", str(path), "--out", str(folder / "run")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield _Run(folder / "run", process)
        finally:
            process.send_signal(signal.SIGINT)


def _role(command: str, instances: int = 1) -> dict[str, Any]:
    role = dict(job([command])["taskRoles"]["worker"])
    return {
        **role,
        "instances": instances,
        "completion": {"minFailedInstances": -1, "minSucceededInstances": -1},
    }


def _hanging(kinds: Mapping[str, str]) -> dict[str, Any]:
    roles = {}
    for number, program in enumerate(kinds.values()):
        roles[f"kind{number}"] = _role(f"exec {SYSTEM_PYTHON} -c {shlex.quote(program)}", RANKS)
    extras = {"hang": {"after": f"{AFTER}s"}, "com.microsoft.pai.runtimeplugin": [{"plugin": "distributed"}]}
    return job([], taskRoles=roles, extras=extras)


def _healthy() -> dict[str, Any]:
    roles = {f"healthy{number}": _role(command) for number, command in enumerate(HEALTHY.values())}
    return job([], taskRoles=roles, extras={"hang": {"after": f"{AFTER}s"}})


def _ranks() -> dict[str, Any]:
    program = "import threading; threading.Event().wait()"
    return job([], taskRoles={"worker": _role(f"exec {sys.executable} -c {shlex.quote(program)}", MANY)})


def _found(run: _Run, kinds: Mapping[str, str]) -> list[str]:
    """Wait until each kind is reported; print when, and what `stacks` says of it."""
    missed, rows = [], []
    found: dict[int, float] = {}
    quiet: dict[int, float] = {}
    until = time.monotonic() + 3 * WITHIN + 60
    while len(found) < len(kinds) and time.monotonic() < until:
        for number in range(len(kinds)):
            logs = list(run.folder.glob(f"kind{number}/*/logs/user-stdout/current"))
            if len(logs) == RANKS and number not in quiet and all(log.stat().st_size for log in logs):
                quiet[number] = time.monotonic()
            if number in quiet and number not in found and run.notes(f"kind{number}"):
                found[number] = time.monotonic() - quiet[number]
        time.sleep(0.2)
    told = subprocess.run([PROGRAM, "stacks", str(run.folder)], check=False, capture_output=True, text=True)
    for number, name in enumerate(kinds):
        culprit = f"kind{number}/{CULPRIT} is not where the others are: "
        named = [line for line in told.stdout.splitlines() if line.startswith(culprit)]
        took = f"{found[number]:.0f} s" if number in found else "no"
        where = named[0].removeprefix(culprit)[:_WIDTH] if named else "-"
        rows.append((name, took, f"{WITHIN} s", "yes" if named else "no", where))
        if found.get(number, WITHIN + 1) > WITHIN:
            missed.append(f"hang not found within {WITHIN} s: {name}")
        if not named:
            missed.append(f"the culprit is not named: {name}")
    table(("hang", "found after", "target", "culprit named", "where"), rows)
    return missed


def _cost() -> list[str]:
    """Return what is missed of the share of a processor that watches of tasks take."""
    before, began = _watches(), time.monotonic()
    time.sleep(10)
    took = time.monotonic() - began
    shares = [(cpu - before[pid]) / took for pid, cpu in _watches().items() if pid in before]
    most = max(shares, default=0.0)
    rows = [(f"{len(shares)} watches, after: {AFTER}s", f"{most:.2%}", f"{MOST_SHARE:.2%}")]
    table(("the costliest of", "of a processor", "target"), rows)
    return [f"a watch takes {most:.2%} of a processor"] if most > MOST_SHARE else []


def _watches() -> dict[int, float]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if b"pai_hang.watch" in (entry / "cmdline").read_bytes():
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICK
            except OSError:
                continue
    return found


def _quiet(run: _Run) -> list[str]:
    """Return which healthy programs were reported, once they have ended."""
    run.process.wait()
    rows, missed = [], []
    for number, name in enumerate(HEALTHY):
        notes = [note for each in run.notes(f"healthy{number}").values() for note in each]
        rows.append((name, notes[0][:_WIDTH] if notes else "none", "none"))
        missed += [f"false alarm: {name}"] * bool(notes)
    table(("healthy program", "report", "target"), rows)
    return missed


def _stacks(run: _Run) -> list[str]:
    """Return what is missed of the time in which the stacks of many ranks are shown."""
    argv = [PROGRAM, "stacks", str(run.folder)]
    while f"{MANY} tasks" not in subprocess.run(argv, check=False, capture_output=True, text=True).stdout:
        time.sleep(0.5)
    began = time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - began
    table(("stacks of", "clock", "target"), [(f"{MANY} ranks", f"{took:.2f} s", f"{STACKS_WITHIN} s")])
    return [f"the stacks of {MANY} ranks take {took:.1f} s"] if took > STACKS_WITHIN else []
