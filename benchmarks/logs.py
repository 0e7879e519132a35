"""logs: a command that writes as fast as it can, through the supervisor into the logs.

Beside the same writer into `tee a | tee b >/dev/null`, which writes two files too. What the same takes when
next to nothing is written, such as the start of `run`, is taken off. Targets, of the speed of `tee`: 0.9 x,
and 0.5 x with 20 secrets to mask.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    PROGRAM,
    Sample,
    Thing,
    Timing,
    in_turn,
    job,
    process,
    table,
    times,
    write_job,
)

MEGABYTES = 200
RUNS = 3
SECRETS = 20
REFERENCE = "tee a | tee b"
TARGETS = {"run": 0.9, "run, 20 tokens to mask": 0.5}
NO_TARGET = "run, 20 passwords to mask"
WRITER = (
    "yes '2026-01-01 00:00:00 INFO step 1000 of 20000: loss 0.12345, accuracy 0.98765, lr 0.001' | head -c {}"
)


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        idle = in_turn(RUNS, _things(folder, 1))
        busy = in_turn(RUNS, _things(folder, MEGABYTES * 1_000_000))
    measured = {
        name: Timing(timing.median - idle[name].median, timing.cpu - idle[name].cpu)
        for name, timing in busy.items()
    }
    reference = measured[REFERENCE]
    rows = [
        (
            name,
            f"{MEGABYTES / timing.median:.0f} MB/s",
            times(reference.median / timing.median),
            times(TARGETS[name]) if name in TARGETS else "",
            f"{timing.cpu / MEGABYTES * 1e6:.0f} us/MB",
            times(reference.cpu / timing.cpu),
        )
        for name, timing in measured.items()
    ]
    table((f"{MEGABYTES} MB", "speed", REFERENCE, "target", "CPU", REFERENCE), rows)
    ratios = {name: reference.median / measured[name].median for name in TARGETS}
    return [f"{name}: {times(ratios[name])}" for name, target in TARGETS.items() if ratios[name] < target]


def _things(folder: Path, size: int) -> dict[str, Thing]:
    writer = WRITER.format(size)
    tokens = [hashlib.sha256(bytes([number])).hexdigest() for number in range(SECRETS)]
    passwords = [f"{token[:11]}!" for token in tokens]
    ends_well = f"({writer}) || :"  # `yes` is killed by its closed pipe, which fails a script
    secrets = dict(zip((*TARGETS, NO_TARGET), ([], tokens, passwords), strict=True))
    tee = f"{writer} | tee {folder}/a | tee {folder}/b >/dev/null"
    return {
        **{
            name: _run(folder, _job(folder / f"{name}.yaml", ends_well, values))
            for name, values in secrets.items()
        },
        REFERENCE: process(["bash", "-c", tee]),
    }


def _job(path: Path, command: str, secrets: list[str]) -> Path:
    fields: dict[str, Any] = (
        {"secrets": {f"s{number}": value for number, value in enumerate(secrets)}} if secrets else {}
    )
    return write_job(path, job([command], **fields))


def _run(folder: Path, path: Path) -> Thing:
    thing = process([PROGRAM, "run", str(path), "--out", str(folder / "out")])

    def run() -> Sample:
        shutil.rmtree(folder / "out", ignore_errors=True)
        return thing()

    return run
