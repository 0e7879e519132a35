"""hangs: tasks that hang and tasks that do not, of real programs, and what it costs to find out.

Each kind of hang has three ranks, of which the second is the culprit; PyTorch's gloo, Open MPI or JAX joins
them, where they are (Debian: python3-torch, python3-mpi4py). As root, all of it is done again by an ordinary
user without new privileges. Targets, with `after: 30s`: found within
60 s, and the culprit named, by what is told at once and by `stacks`; a watch that takes 0.5 % of a processor;
no report of any of 200 healthy programs that are silent for more than twice `after`, 10 s; and the stacks of
16 ranks in 2 s.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hang_programs import (
    CULPRIT,
    SYSTEM_PYTHON,
    gloo_kinds,
    healthy,
    jax_command,
    mpi_command,
)
from benchmarks.measure import PROGRAM, job, table, write_job
from tests.job_environment import job_environment

AFTER, WITHIN, STACKS_WITHIN, MOST_SHARE = 30, 60, 2.0, 0.005
HEALTHY, HEALTHY_AFTER, SILENT = 200, 10, 25
RANKS, MANY = 3, 16
RARER = 20
"""How much rarer a watch looks by default than with `AFTER`: each 15 s, and at stacks rarer still."""
AT_ONCE, HEALTHY_AT_ONCE = 5, 50
"""Kinds of hangs, and healthy programs, that run at the same time."""
_ORDINARY = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--no-new-privs"]
_OPEN = """
place=$(mktemp --directory)
mount --bind "$1" "$place"
mount -t tmpfs -o mode=755 none "$0"
mkdir -p "$1"
mount --bind "$place" "$1"
umount "$place"
rmdir "$place"
shift
exec "$@"
"""
"""Lets everybody use what is at the second argument, below the first, which is closed to them."""
_ONE_TASK = "Open MPI"
"""The kind whose ranks are processes of one task."""
_WIDTH = 60
_COST_FOR = 10
"""Seconds in which the processors that a watch takes are counted."""
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> list[str]:
    missed: list[str] = []
    for name, user in _users().items():
        kinds, rows = _kinds(is_root=not user and os.geteuid() == 0), list[tuple[str, ...]]()
        for first in range(0, len(kinds), AT_ONCE):
            batch = dict(list(kinds.items())[first : first + AT_ONCE])
            with _running(_hanging(batch), user) as hangs:
                missed += _found(hangs, batch, rows)
                missed += _cost(rows)
        table((f"hang, {name}", "found after", "target", "told at once", "by stacks", "where"), rows)
    missed += _healthy()
    with _running(_ranks(), []) as many:
        missed += _stacks(many)
    return missed


def _users() -> dict[str, list[str]]:
    """Return how programs are started as each user, by its name."""
    if os.geteuid() != 0:
        return {"this user": []}
    closed = [each for each in Path(sys.base_prefix).parents if not each.stat().st_mode & 1]
    opened = ["unshare", "--mount", "sh", "-ec", _OPEN, str(closed[-1]), sys.base_prefix] if closed else []
    start = [*opened, *_ORDINARY]
    can_start = subprocess.run(
        [*start, PROGRAM, "--version"], check=False, capture_output=True, env=_environment()
    )
    if can_start.returncode:
        print(f"  not as an ordinary user: that one cannot start {PROGRAM}")
        return {"root": []}
    return {"root": [], "uid 12345": start}


def _kinds(*, is_root: bool) -> dict[str, str]:
    """Return the commands of what hangs, by what it is, as far as this machine has what they need."""
    found = {}
    if _has("torch.distributed", "python3-torch"):
        found = gloo_kinds(is_root=is_root)
    if shutil.which("mpirun") and _has("mpi4py", "python3-mpi4py"):
        found[_ONE_TASK] = mpi_command(ranks=RANKS)
    try:
        found["JAX"] = jax_command(str(job_environment("jax") / "python"))
    except subprocess.CalledProcessError:
        print("  no JAX: no package index can be reached")
    return found


def _has(module: str, package: str) -> bool:
    tried = subprocess.run([SYSTEM_PYTHON, "-c", f"import {module}"], check=False, stderr=subprocess.DEVNULL)
    if tried.returncode:
        print(f"  no {module}: apt-get install {package}")
    return tried.returncode == 0


@dataclass(frozen=True)
class _Run:
    """A run in the background."""

    folder: Path
    process: subprocess.Popen[bytes]
    user: Sequence[str]

    @property
    def told(self) -> str:
        """What people have been told of it."""
        return (self.folder.parent / "told").read_text()

    def notes(self, role: str) -> list[str]:
        """What people are told of all tasks of a role."""
        states = [json.loads(state.read_text()) for state in self.folder.glob(f"{role}/*/state.json")]
        return [note for state in states for note in state["notes"]]

    def command(self, *args: str) -> list[str]:
        """The command line of ``pai-runtime`` about it."""
        return [*self.user, PROGRAM, *args, str(self.folder)]


@contextmanager
def _running(document: Mapping[str, Any], user: Sequence[str]) -> Iterator[_Run]:
    """Start a run, and cancel it at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o777)
        path = write_job(folder / "job.yaml", document)
        argv = [*user, PROGRAM, "run", str(path), "--plain", "--out", str(folder / "run")]
        with (
            (folder / "told").open("wb") as told,
            subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=told, env=_environment()) as process,
        ):
            try:
                yield _Run(folder / "run", process, user)
            finally:
                process.send_signal(signal.SIGINT)
                process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "HOME": "/tmp"}  # noqa: S108 - of any user, for programs that want one


def _role(command: str, instances: int = 1) -> dict[str, Any]:
    role = dict(job([command])["taskRoles"]["worker"])
    return {
        **role,
        "instances": instances,
        "completion": {"minFailedInstances": -1, "minSucceededInstances": -1},
    }


def _hanging(kinds: Mapping[str, str]) -> dict[str, Any]:
    roles = {
        f"kind{number}": _role(f"exec {command}" if name != _ONE_TASK else command, _tasks_of(name))
        for number, (name, command) in enumerate(kinds.items())
    }
    extras = {"hang": {"after": f"{AFTER}s"}, "com.microsoft.pai.runtimeplugin": [{"plugin": "distributed"}]}
    return job([], taskRoles=roles, extras=extras)


def _tasks_of(kind: str) -> int:
    return 1 if kind == _ONE_TASK else RANKS


def _ranks() -> dict[str, Any]:
    program = "import threading; threading.Event().wait()"
    return job([], taskRoles={"worker": _role(f"exec {sys.executable} -c {shlex.quote(program)}", MANY)})


def _found(run: _Run, kinds: Mapping[str, str], rows: list[tuple[str, ...]]) -> list[str]:
    """Wait until each kind is reported; add when, and how its culprit is named, to `rows`."""
    found: dict[int, float] = {}
    quiet: dict[int, float] = {}
    until = time.monotonic() + 3 * WITHIN + 60
    while len(found) < len(kinds) and time.monotonic() < until:
        for number, name in enumerate(kinds):
            logs = list(run.folder.glob(f"kind{number}/*/logs/user-stdout/current"))
            has_begun = len(logs) == _tasks_of(name) and all(log.stat().st_size for log in logs)
            if has_begun and number not in quiet:
                quiet[number] = time.monotonic()
            if number in quiet and number not in found and run.notes(f"kind{number}"):
                found[number] = time.monotonic() - quiet[number]
        time.sleep(0.2)
    time.sleep(AFTER / 2)  # until all tasks are judged, and those that do not hang have said where they are
    stacks = subprocess.run(run.command("stacks"), check=False, capture_output=True, text=True).stdout
    missed = []
    for number, name in enumerate(kinds):
        told, by_stacks = _culprit(number, run.told), _culprit(number, stacks)
        took = f"{found[number]:.0f} s" if number in found else "no"
        words = "yes" if told else "no", "yes" if by_stacks else "no", (told or by_stacks)[:_WIDTH]
        rows.append((name, took, f"{WITHIN} s", *words))
        if found.get(number, WITHIN + 1) > WITHIN:
            missed.append(f"hang not found within {WITHIN} s: {name}")
        if not told:
            missed.append(f"the culprit is not named at once: {name}")
    return missed


def _culprit(number: int, said: str) -> str:
    """Return what is said of the culprit of a kind, from its name on; empty if it is not named."""
    role, task = f"kind{number}/", f"kind{number}/{CULPRIT}"
    for line in said.splitlines():
        lacking = line.partition("but not of ")[2]
        if f"{task} (" in lacking:
            return lacking[lacking.index(task) :]
        if line.startswith(f"{task} is not where") or f"{task} does not answer" in line:
            return line
        if role in line and (", but process " in line or " does not answer" in line):  # by address, or its id
            return line[line.index(role) :]
    return ""


def _cost(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return what is missed of the share of a processor that watches of tasks take."""
    shares: list[float] = []
    for _ in range(AFTER // _COST_FOR):  # in some of which a busy process is examined
        before, began = _watches(), time.monotonic()
        time.sleep(_COST_FOR)
        took = time.monotonic() - began
        shares += [(cpu - before[pid]) / took for pid, cpu in _watches().items() if pid in before]
    most = max(shares, default=0.0)
    usual = most / RARER
    print(
        f"  {len(rows)} kinds of hangs; the costliest watch in {_COST_FOR} s: {most:.2%} of a processor "
        f"with `after: {AFTER}s`, so {usual:.2%} by default (target {MOST_SHARE:.1%})"
    )
    return [f"a watch takes {usual:.2%} of a processor"] if usual > MOST_SHARE else []


def _watches() -> dict[int, float]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if b"pai_hang.watch" in (entry / "cmdline").read_bytes():
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    found[int(entry.name)] = sum(map(int, fields[11:15])) / _TICK
            except OSError:
                continue
    return found


def _healthy() -> list[str]:
    """Return which healthy programs were reported, once they have ended."""
    programs = healthy(SILENT, HEALTHY, _notebook())
    waiting = [(name, command) for name, commands in programs.items() for command in commands]
    alarms: dict[str, list[str]] = {}
    while waiting:
        batch, waiting = waiting[:HEALTHY_AT_ONCE], waiting[HEALTHY_AT_ONCE:]
        roles = {f"healthy{number}": _role(command) for number, (_, command) in enumerate(batch)}
        document = job([], taskRoles=roles, extras={"hang": {"after": f"{HEALTHY_AFTER}s"}})
        with _running(document, []) as run:
            run.process.wait()
            for number, (name, _) in enumerate(batch):
                alarms.setdefault(name, []).extend(run.notes(f"healthy{number}"))
    rows = [
        (name, str(len(commands)), str(len(alarms[name])), "0", "; ".join(alarms[name])[:_WIDTH])
        for name, commands in programs.items()
    ]
    rows.append(("all", str(sum(map(len, programs.values()))), str(sum(map(len, alarms.values()))), "0", ""))
    table(("healthy programs", "number", "reports", "target", "report"), rows)
    return [f"false alarm: {name}: {', '.join(alarms[name])}" for name in programs if alarms[name]]


def _notebook() -> str:
    try:
        return str(job_environment("notebook") / "python")
    except subprocess.CalledProcessError:
        return ""


def _stacks(run: _Run) -> list[str]:
    """Return what is missed of the time in which the stacks of many ranks are shown."""
    argv = run.command("stacks")
    while f"{MANY} tasks" not in subprocess.run(argv, check=False, capture_output=True, text=True).stdout:
        time.sleep(0.5)
    began = time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - began
    table(("stacks of", "clock", "target"), [(f"{MANY} ranks", f"{took:.2f} s", f"{STACKS_WITHIN} s")])
    return [f"the stacks of {MANY} ranks take {took:.1f} s"] if took > STACKS_WITHIN else []
