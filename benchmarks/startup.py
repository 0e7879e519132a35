"""startup: the whole process of `plan`, for a job with four uses of a plugin, and for 10,000 such tasks.

Each has its target; that of the first is a multiple of `python -I -c pass`, which is measured beside it.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import (
    BARE_PYTHON,
    PROGRAM,
    callback,
    in_turn,
    job,
    megabytes,
    milliseconds,
    process,
    table,
    times,
    write_job,
)
from pai_task.interpreter import python_argv

RUNS = 15
RUNS_OF_MANY = 3
TASKS = 10_000
PLAN, ONE, ALL = "plan, four uses", f"plan --task, {TASKS} tasks", f"plan, {TASKS} tasks"
BARE = "python -I -c pass"
MOST_TIMES = 12
MOST_SECONDS = {ONE: 0.35, ALL: 3.0}
MOST_MEMORY = {ONE: 70_000_000}
"""99 MB before what all tasks share was kept once."""
PACKAGES = (
    "pai_runtime",
    "pai_task",
    "pai_document",
    "dataclasses",
    "pai_cmd",
    "jsonschema",
    "referencing",
    "yaml",
    "pluggy",
    "argparse",
)
OWN_START = "Python's own start"

_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| ( *)([\w.]+)")


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        prerequisites = [
            {"name": f"use{number}", "type": "script", "callbacks": [callback("taskStarts", "echo")]}
            for number in range(4)
        ]
        document = job(["true"], prerequisites, [f"use{number}" for number in range(4)])
        path = str(write_job(Path(folder) / "job.yaml", document))
        measured = in_turn(
            RUNS,
            {
                PLAN: process([PROGRAM, "plan", path]),
                "validate, the same job": process([PROGRAM, "validate", path]),
                "pai-runtime --version": process([PROGRAM, "--version"]),
                BARE: process(BARE_PYTHON),
            },
        )
        document["taskRoles"]["worker"]["instances"] = TASKS
        many = str(write_job(Path(folder) / "many.yaml", document))
        measured |= in_turn(
            RUNS_OF_MANY,
            {
                ONE: process([PROGRAM, "plan", many, "--json", "--task", f"worker/{TASKS - 1}"]),
                ALL: process([PROGRAM, "plan", many]),
            },
        )
        shares = _shares(path)
    bare = measured[BARE].cpu
    targets = {PLAN: MOST_TIMES * bare, **MOST_SECONDS}
    rows = [
        (
            name,
            milliseconds(timing.median),
            milliseconds(timing.cpu),
            milliseconds(targets[name]) if name in targets else "",
            times(timing.cpu / bare),
            times(MOST_TIMES) if name == PLAN else "",
            megabytes(timing.memory) if name in MOST_MEMORY else "",
            megabytes(MOST_MEMORY[name]) if name in MOST_MEMORY else "",
        )
        for name, timing in measured.items()
    ]
    table(("", "time", "CPU", "target", f"CPU beside {BARE}", "target", "memory", "target"), rows)

    print("\n  Imports of `plan`, each with what only it imports (python -X importtime):\n")
    total = sum(shares.values())
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    table(
        ("", "time", "share"),
        [(name, milliseconds(seconds), f"{seconds / total:.0%}") for name, seconds in ordered],
    )
    missed = [
        f"{name} takes {milliseconds(measured[name].cpu)}, {times(measured[name].cpu / bare)} of {BARE}"
        for name, most in targets.items()
        if measured[name].cpu > most
    ]
    return missed + [
        f"{name} takes {megabytes(measured[name].memory)}"
        for name, most in MOST_MEMORY.items()
        if measured[name].memory > most
    ]


def _shares(path: str) -> dict[str, float]:
    """The seconds that each package's import took, with all that was first imported because of it."""
    shares: dict[str, float] = {}
    python, *rest = python_argv("pai_runtime.cli", "plan", path)
    output = subprocess.run(
        [python, "-X", "importtime", *rest],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    ).stderr
    for owner, seconds in _owners(output):
        shares[owner] = shares.get(owner, 0) + seconds
    return shares


def _owners(output: str) -> Iterator[tuple[str, float]]:
    """Each module's own seconds with the innermost of our packages that it was imported by."""
    importers: list[str] = []
    # A module's line comes after those of what it imports: backwards, importers come first.
    for line in reversed(output.splitlines()):
        if match := _LINE.fullmatch(line):
            depth = len(match[2]) // 2
            del importers[depth:]
            package = match[3].partition(".")[0]
            owner = package if package in PACKAGES else importers[-1] if importers else OWN_START
            importers.append(owner)
            yield owner, int(match[1]) / 1e6
