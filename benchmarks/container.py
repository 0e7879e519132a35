"""container: the start of a task container out of the bundle, from its command to the user's first byte.

Target: at most 4 x of the bundle's bare interpreter. Needs root, since the bundle has one fixed path.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import (
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
from pai_runtime.pod.handover import Handover, hand_over
from pai_runtime.task.folder import Folder
from pai_runtime.task.paths import BUNDLE, LAUNCHER, VOLUME

RUNS = 25
MOST_TIMES = 4.0
COMMAND = "echo hello"
STARTED, BARE = "task container, first byte", "the bundle's python -I -S -c pass"
_MOUNT = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
_INSIDE = "import sys; sys.path[:] = {path}; from benchmarks.container import measure; measure()"


def main() -> list[str]:
    if os.geteuid():
        print("  not measured: to mount the bundle at its path needs root")
        return []
    with tempfile.TemporaryDirectory() as name:
        _prepare(Path(name))
        mounting = ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", name, VOLUME]
        inside = [sys.executable, "-c", _INSIDE.format(path=sys.path)]
        is_new = not Path(VOLUME).exists()
        Path(VOLUME).mkdir(parents=True, exist_ok=True)
        try:
            output = subprocess.run([*mounting, *inside], stdout=subprocess.PIPE, check=True).stdout
        finally:
            if is_new:
                Path(VOLUME).rmdir()
    measured = {name: Timing(**timing) for name, timing in json.loads(output).items()}
    bare = measured[BARE].median
    rows = [
        (name, milliseconds(timing.median), milliseconds(timing.cpu), times(timing.median / bare))
        for name, timing in measured.items()
    ]
    table(("", "time", "CPU", BARE), rows)
    ratio = measured[STARTED].median / bare
    print(f"\n  {STARTED}: {times(ratio)} of {BARE} (target: {times(MOST_TIMES)})")
    return [f"the start of a task container takes {times(ratio)}"] if ratio > MOST_TIMES else []


def _prepare(volume: Path) -> None:
    """The volume of a pod as its init container leaves it, but for what is taken over."""
    subprocess.run([PROGRAM, "bundle", volume / "bundle"], stdout=subprocess.DEVNULL, check=True)
    (volume / "runtime").write_bytes((volume / "bundle/runtime").read_bytes())
    (volume / "runtime").chmod(0o755)
    path = write_job(volume / "job.yaml", job([COMMAND]))
    argv = [PROGRAM, "plan", str(path), "--task", "worker/0", "--json"]
    plan = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    (volume / "runtime.d").mkdir()
    plan_file = volume / "runtime.d/plan.json"
    plan_file.write_text(json.dumps({**plan, "folder": f"{VOLUME}/runtime.d"}), "utf-8")
    (volume / "logs").mkdir()


def measure() -> None:
    """Measure where the volume is mounted, and print the figures."""
    shell = ["bash", "-c", COMMAND]
    measured = in_turn(
        RUNS,
        {
            STARTED: _handed_over(first_byte([LAUNCHER])),
            f"{STARTED}, one secret": _handed_over(first_byte([LAUNCHER]), token="a secret value"),  # noqa: S106 - none
            "task container, whole": _handed_over(process([LAUNCHER])),
            BARE: process([f"{BUNDLE}/bin/python3", "-I", "-S", "-c", "pass"]),
            "the bundle's bash -p -c :": process([f"{BUNDLE}/bin/bash", "-p", "-c", ":"]),
            "bash -c, first byte": first_byte(shell),
        },
    )
    print(json.dumps({name: asdict(timing) for name, timing in measured.items()}))


def _handed_over(thing: Thing, **secrets: str) -> Thing:
    def run() -> Sample:
        with Folder.at(f"{VOLUME}/runtime.d") as folder:
            hand_over(folder, Handover(f"{VOLUME}/logs", secrets))
        return thing()

    return run
