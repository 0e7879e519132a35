"""slurm: jobs of 1 and of 100 tasks on a real Slurm on this machine, beside scripts for `sbatch`.

Targets: to the first byte at most 0.5 s more, 100 tasks up in at most 1.3 x the time, and at most 60 MB for
the run supervisor of 100 tasks. These are judged by the clock: what is waited for is most of it. The
controller starts jobs of scripts once a second, so jobs of 1 task are submitted at moments that are spread
over a second, and their times are means. The CPU time is that of everything but the daemons of Slurm. What a
follower asks of the controller in ten minutes is counted by the controller itself, on a clock that is put
forward.
"""

import os
import re
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from benchmarks.measure import (
    PROGRAM,
    Sample,
    job,
    megabytes,
    milliseconds,
    table,
    times,
    timings,
    write_job,
)
from pai_slurm.queue import Queue
from pai_task.supervisor.process_tree import adopt_orphans, descendants
from tests.slurm_cluster import SlurmCluster, running_slurm

RUNS: Final = 8
SECOND: Final = 1.0
RUNS_OF_MANY: Final = 2
TASKS: Final = 100
CPUS: Final = 52
MOST_SECONDS_MORE: Final = 0.5
MOST_TIMES: Final = 1.3
MOST_MEMORY: Final = 60_000_000
MINUTES: Final = 10
LOOKS_PER_SECOND: Final = 4
_PROCESS: Final = "pai_slurm.batch"
_UP: Final = "exec 3<gate; echo . >up; cat <&3"
"""A task that says that it runs, and waits until the other end of ``gate`` is closed."""
_WITHIN: Final = 60


class _Many(NamedTuple):
    """A run of many tasks, with the memory of its run supervisor and of all ``srun`` once they are up."""

    sample: Sample
    supervisor: int
    sruns: int


def main() -> list[str]:
    adopt_orphans()  # the processes of steps, so that their CPU time is known
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, running_slurm(2, CPUS) as slurm:
        folder = Path(name)
        os.environ |= {"SLURM_CONF": str(slurm.config), "XDG_CONFIG_HOME": name, "XDG_STATE_HOME": name}
        (folder / "pai-runtime").mkdir()
        (folder / "pai-runtime/engines.yaml").write_text(
            f"enginesVersion: 1\nengines:\n  lab: {{engine: slurm, runs: {folder}/runs}}\n"
        )
        for pipe in ("up", "gate"):
            os.mkfifo(folder / pipe)
        missed = _one(folder, slurm)
        print()
        missed += _many(folder, slurm)
        print()
        _questions(slurm)
    return missed


def _one(folder: Path, slurm: SlurmCluster) -> list[str]:
    ours, theirs = "run --on", "sbatch, one srun step"
    commands = dict(zip((ours, theirs), _commands(folder, 1), strict=True))
    rounds: list[dict[str, Sample]] = [{} for _ in range(RUNS)]
    for number, each in enumerate(rounds):
        for name, argv in commands.items():
            began = time.perf_counter()
            started = began + _run(folder, slurm, commands[theirs], 1).sample.clock
            at = started + number / RUNS * SECOND
            time.sleep((at - time.perf_counter()) % SECOND)
            each[name] = _run(folder, slurm, argv, 1).sample
    measured = timings(rounds)
    means = {name: statistics.fmean(each[name].clock for each in rounds) for name in commands}
    more = {"clock": means[ours] - means[theirs], "cpu": measured[ours].cpu - measured[theirs].cpu}
    table(
        ("until the first byte", "time", "more", "target", "CPU to the end", "more"),
        [
            (
                ours,
                milliseconds(means[ours]),
                milliseconds(more["clock"]),
                milliseconds(MOST_SECONDS_MORE),
                milliseconds(measured[ours].cpu),
                milliseconds(more["cpu"]),
            ),
            (theirs, milliseconds(means[theirs]), "", "", milliseconds(measured[theirs].cpu), ""),
        ],
    )
    seconds = more["clock"]
    return (
        [f"the first byte comes {seconds:.2f} s later than of sbatch"] if seconds > MOST_SECONDS_MORE else []
    )


def _many(folder: Path, slurm: SlurmCluster) -> list[str]:
    ours, theirs = f"run --on, {TASKS} tasks", f"sbatch, {TASKS} x srun --exact"
    commands = _commands(folder, TASKS)
    rounds = [
        {name: _run(folder, slurm, argv, TASKS) for name, argv in zip((ours, theirs), commands, strict=True)}
        for _ in range(RUNS_OF_MANY)
    ]
    measured = timings([{name: many.sample for name, many in each.items()} for each in rounds])
    supervisor = min(each[ours].supervisor for each in rounds)
    table(
        (
            "until all tasks run",
            "time",
            "",
            "target",
            "CPU to the end",
            "",
            "supervisor",
            "target",
            "all srun",
        ),
        [
            (
                name,
                milliseconds(timing.median),
                times(timing.median / measured[theirs].median),
                times(MOST_TIMES) if name == ours else "",
                milliseconds(timing.cpu),
                times(timing.cpu / measured[theirs].cpu),
                megabytes(supervisor) if name == ours else "",
                megabytes(MOST_MEMORY) if name == ours else "",
                megabytes(min(each[name].sruns for each in rounds)),
            )
            for name, timing in measured.items()
        ],
    )
    ratio = measured[ours].median / measured[theirs].median
    missed = [f"{TASKS} tasks take {times(ratio)} of as many srun"] if ratio > MOST_TIMES else []
    too_large = [f"the run supervisor takes {megabytes(supervisor)}"] if supervisor > MOST_MEMORY else []
    return [*missed, *too_large]


def _commands(folder: Path, tasks: int) -> tuple[Sequence[str], Sequence[str]]:
    """The submissions of tasks as a job of ours, and as a script."""
    document = job([f"cd {folder}", _UP])
    worker = document["taskRoles"]["worker"]
    worker["instances"], worker["resourcePerInstance"]["memoryMB"] = tasks, 0
    worker["completion"] = {"minSucceededInstances": tasks}
    path = write_job(folder / f"{tasks}.yaml", document)
    script = folder / f"{tasks}.sh"
    step = f"srun --exact --nodes=1 --ntasks=1 --cpus-per-task=1 --input=none sh -c '{_UP}' &"
    script.write_text("\n".join(("#!/bin/sh", *[step] * tasks, "wait", "")))
    ours = [PROGRAM, "run", str(path), "--on", "lab"]
    return ours, ["sbatch", f"--ntasks={tasks}", "--output=/dev/null", f"--chdir={folder}", str(script)]


def _run(folder: Path, slurm: SlurmCluster, argv: Sequence[str], tasks: int) -> _Many:
    """Run a submission until its tasks are up, let them end, and wait until nothing of it is left."""
    cpu = -_cpu_of_what_has_ended()
    up, gate = (os.open(folder / name, os.O_RDWR) for name in ("up", "gate"))
    try:
        began = time.perf_counter()
        null = subprocess.DEVNULL
        with subprocess.Popen(argv, cwd=folder, stdin=null, stdout=null, stderr=null) as submitted:
            for _ in range(tasks):
                if not select.select([up], [], [], _WITHIN)[0]:
                    submitted.kill()
                    raise TimeoutError("a task does not start")
                os.read(up, 2)
            elapsed = time.perf_counter() - began
            supervisor, sruns = (
                _memory(lambda argv: _PROCESS in argv),
                _memory(lambda argv: "srun" in argv[0]),
            )
            os.close(gate)
        if submitted.returncode:
            raise subprocess.CalledProcessError(submitted.returncode, argv)
        _until(lambda: not slurm.call("squeue", "--noheader"))
        _until(lambda: not _pids(lambda argv: "slurmstepd" in argv[0]))
    finally:
        os.close(up)
    return _Many(Sample(elapsed, cpu + _cpu_of_what_has_ended()), supervisor, sruns)


def _cpu_of_what_has_ended() -> float:
    """The CPU time of all processes that were reaped, after those that were left to us."""
    daemons = set(_pids(lambda argv: argv[0] in ("munged", "slurmctld", "slurmd")))
    with suppress(ChildProcessError):
        for pid in descendants(os.getpid()):
            if pid not in daemons:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
    ended = os.times()
    return ended.children_user + ended.children_system


def _memory(is_wanted: Callable[[Sequence[str]], bool]) -> int:
    """The bytes of memory of some processes; what several share is divided among them."""
    size = 0
    for pid in _pids(is_wanted):
        with suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
            size += int(found[1]) * 1024 if found else 0
    return size


def _pids(is_wanted: Callable[[Sequence[str]], bool]) -> list[int]:
    """The processes of ours with such an argv."""
    found = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if is_wanted(argv):
                found.append(pid)
    return found


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _WITHIN
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("Slurm does not get to an end")
        time.sleep(0.02)


def _questions(slurm: SlurmCluster) -> None:
    """Print what a follower asks in some minutes: its queue is real, and so is the controller that counts."""
    rows = []
    for state, wanted, options in (("waiting", "PENDING", ["--hold"]), ("running", "RUNNING", [])):
        said = slurm.call("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 1000").strip()
        _until_it_is(slurm, wanted)
        before, queue, began = _asked(slurm), Queue(), time.time()
        for look in range(MINUTES * 60 * LOOKS_PER_SECOND):
            with mock.patch("pai_slurm.queue.time.time", return_value=began + look / LOOKS_PER_SECOND):
                queue.job(said, since=began - 1)
        after = _asked(slurm)
        slurm.call("scancel", said)
        _until(lambda: not slurm.call("squeue", "--noheader"))
        asked = {name: count - before.get(name, 0) for name, count in after.items()}
        asked = {name: count for name, count in asked.items() if count}
        rows.append((state, ", ".join(f"{count} {name}" for name, count in asked.items())))
    rows.append(("watch -n 2 squeue", f"{MINUTES * 30} of each"))
    table((f"asked of slurmctld in {MINUTES} minutes", ""), rows)


def _until_it_is(slurm: SlurmCluster, state: str) -> None:
    _until(lambda: bool(slurm.call("squeue", "--noheader", f"--states={state}")))


def _asked(slurm: SlurmCluster) -> Mapping[str, int]:
    """The requests that the controller has had, by kind."""
    by_type = slurm.call("sdiag").partition("statistics by message type")[2].partition("by user")[0]
    found = re.findall(r"^\s*(REQUEST_JOB\w*|REQUEST_PARTITION\w*)\s.*?count:(\d+)", by_type, re.MULTILINE)
    return {name: int(count) for name, count in found}
