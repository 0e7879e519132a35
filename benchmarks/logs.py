"""logs: a command that writes as fast as it can, through the supervisor into the logs.

Beside the same writer into `tee a | tee b >/dev/null`, which writes two files too.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

from benchmarks.measure import PROGRAM, Sample, Thing, in_turn, job, process, table, times, write_job

MEGABYTES = 500
SECONDS_FOR_ALL = 50
RUNS = 3
WRITER = (
    "yes '2026-01-01 00:00:00 INFO step 1000 of 20000: loss 0.12345, accuracy 0.98765, lr 0.001' | head -c {}"
)


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe = in_turn(1, _things(folder, 20_000_000))
        cost = sum(timing.median for timing in probe.values()) / 20 * (RUNS + 1)
        megabytes = max(20, min(MEGABYTES, int(SECONDS_FOR_ALL / cost)))
        measured = in_turn(RUNS, _things(folder, megabytes * 1_000_000))
    reference = measured["tee a | tee b"]
    rows = [
        (name, f"{megabytes / timing.median:.0f} MB/s", times(reference.median / timing.median))
        for name, timing in measured.items()
    ]
    table((f"{megabytes} MB", "speed", "tee a | tee b"), rows)
    return []


def _things(folder: Path, size: int) -> dict[str, Thing]:
    writer = WRITER.format(size)
    secrets = {f"s{number}": hashlib.sha256(bytes([number])).hexdigest() for number in range(10)}
    ends_well = f"({writer}) || :"  # `yes` is killed by its closed pipe, which fails a script
    plain = write_job(folder / "plain.yaml", job([ends_well]))
    masked = write_job(folder / "masked.yaml", job([ends_well], secrets=secrets))
    tee = f"{writer} | tee {folder}/a | tee {folder}/b >/dev/null"
    return {
        "run": _run(folder, plain),
        "run, 10 secrets to mask": _run(folder, masked),
        "tee a | tee b": process(["bash", "-c", tee]),
    }


def _run(folder: Path, path: Path) -> Thing:
    thing = process([PROGRAM, "run", str(path), "--out", str(folder / "out")])

    def run() -> Sample:
        shutil.rmtree(folder / "out", ignore_errors=True)
        return thing()

    return run
