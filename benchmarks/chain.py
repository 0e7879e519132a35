"""chain: a job with a chain of prerequisites, each of which requires the one before and has a callback.

Target: linear growth (at most 2.5 x per doubling), and below 1 s for 1,000 of them.
"""

import tempfile
from pathlib import Path

from benchmarks.measure import (
    BARE_PYTHON,
    PROGRAM,
    Timing,
    callback,
    in_turn,
    job,
    milliseconds,
    process,
    table,
    times,
    write_job,
)

LENGTHS = (125, 250, 500, 1000)
RUNS = 5
MOST_GROWTH = 2.5
MOST_SECONDS = 1.0


def main() -> list[str]:
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        jobs = {length: _write(Path(folder), length) for length in LENGTHS}
        rows = []
        for command in ("validate", "plan"):
            measured = in_turn(
                RUNS,
                {
                    "bare": process(BARE_PYTHON),
                    **{str(n): process([PROGRAM, command, str(jobs[n])]) for n in LENGTHS},
                },
            )
            before: Timing | None = None
            for length in LENGTHS:
                timing = measured[str(length)]
                growth = timing.cpu / before.cpu if before else None
                rows.append(
                    (
                        f"{command}, {length} prerequisites",
                        milliseconds(timing.median),
                        times(timing.median / measured["bare"].median),
                        milliseconds(timing.cpu),
                        times(growth) if growth else "",
                    )
                )
                if growth and growth > MOST_GROWTH:
                    missed.append(f"{command} grows {times(growth)} from {length // 2} to {length}")
                before = timing
            if before and before.cpu >= MOST_SECONDS:
                missed.append(f"{command} takes {milliseconds(before.cpu)} for {LENGTHS[-1]}")
    table(("", "time", "python -I -c pass", "CPU", "per doubling"), rows)
    return missed


def _write(folder: Path, length: int) -> Path:
    prerequisites = [
        {
            "name": f"step{number}",
            "type": "script",
            "require": [f"step{number - 1}"] if number else [],
            "callbacks": [callback("taskStarts", f"echo {number}")],
        }
        for number in range(length)
    ]
    document = job(["true"], prerequisites, [f"step{length - 1}"])
    return write_job(folder / f"chain-{length}.yaml", document)
