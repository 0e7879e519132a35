"""task: a job of one task beside a shell that runs the same command.

Target: the supervisor's first byte after at most 4 x of `python -I -S -c pass`; the bash runtime that this
replaces takes 3.8 x.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import (
    BARE_PYTHON,
    PROGRAM,
    Sample,
    Thing,
    Timing,
    first_byte,
    in_turn,
    job,
    milliseconds,
    process,
    table,
    times,
    write_job,
)
from pai_task.interpreter import python_argv

RUNS = 15
MOST_TIMES = 4.0
COMMAND = "echo hello"
PEAK = "sed -n 's/^VmHWM: *//p' /proc/{}/status"
"""Prints the peak of a process's memory; the program's own, unlike that of `getrusage`, which counts from
what forked it."""


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_job(folder / "job.yaml", job([COMMAND]))
        run = [PROGRAM, "run", str(path)]
        shell = ["bash", "-c", COMMAND]
        bare = [sys.executable, "-I", "-S", "-c", "pass"]
        supervisor = _supervisor(path, folder / "task")
        measured = in_turn(
            RUNS,
            {
                "run, whole": process(run, cwd=folder),
                "run, first byte": first_byte(run, cwd=folder),
                "supervisor, whole": _fresh(folder / "task", process(supervisor)),
                "supervisor, first byte": _fresh(folder / "task", first_byte(supervisor)),
                "bash -c, whole": process(shell),
                "bash -c, first byte": first_byte(shell),
                "python -I -S -c pass": process(bare),
                "python -I -c pass": process(BARE_PYTHON),
            },
        )
        memory = _peaks(folder)
    _print(measured)
    print()
    own = memory["python -I -S -c pass"]
    table(
        ("peak memory", "", "python -I -S -c pass"),
        [(each, f"{peak / 1024:.1f} MB", times(peak / own)) for each, peak in memory.items()],
    )
    ratio = measured["supervisor, first byte"].median / measured["python -I -S -c pass"].median
    print(f"\n  supervisor, first byte: {times(ratio)} of python -I -S -c pass (target: {times(MOST_TIMES)})")
    return [f"the supervisor's first byte takes {times(ratio)}"] if ratio > MOST_TIMES else []


def _print(measured: dict[str, Timing]) -> None:
    bash, bare = measured["bash -c, whole"].median, measured["python -I -S -c pass"].median
    table(
        ("", "time", "bash -c", "python -I -S -c pass"),
        [
            (name, milliseconds(timing.median), times(timing.median / bash), times(timing.median / bare))
            for name, timing in measured.items()
        ],
    )


def _supervisor(path: Path, folder: Path) -> list[str]:
    """The argv that runs the job's one task from its plan, as in a container."""
    argv = [PROGRAM, "plan", str(path), "--task", "worker/0", "--json"]
    plan = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    (folder / "work").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({**plan, "folder": str(folder)}), "utf-8")
    return python_argv("pai_task.supervisor.__main__", str(folder))


def _fresh(folder: Path, thing: Thing) -> Thing:
    def run() -> Sample:
        shutil.rmtree(folder / "logs", ignore_errors=True)
        return thing()

    return run


def _peaks(folder: Path) -> dict[str, int]:
    """Peak memory in KB: of a task's supervisor, which is the parent of the user's shell, and of Python."""
    run = [PROGRAM, "run", str(write_job(folder / "peak.yaml", job([PEAK.format("$PPID")])))]
    here = [sys.executable, "-I", "-S", "-c", "print(open('/proc/self/status').read())"]
    return {"supervisor": _peak(run, folder), "python -I -S -c pass": _peak(here, folder)}


def _peak(argv: list[str], folder: Path) -> int:
    output = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True).stdout
    match = re.search(r"(\d+) kB", output[max(output.find("VmHWM"), 0) :])
    if match is None:
        raise RuntimeError(f"no peak in {output!r}")
    return int(match[1])
