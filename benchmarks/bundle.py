"""bundle: its size by part, copying it onto a pod's volume, and how a task container starts from it.

Targets: 60 MB without ssh; copied in 0.5 s; the first byte of the user's command after 4 x of the bundle's
bare interpreter. It runs where pods have it, in a mount namespace.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import (
    PROGRAM,
    Sample,
    Thing,
    Timing,
    first_byte,
    in_turn,
    job,
    megabytes,
    milliseconds,
    process,
    table,
    times,
    write_job,
)
from pai_runtime.pod.handover import Handover, hand_over
from pai_runtime.task.bundle import LAUNCHER, PREFIX
from pai_runtime.task.folder import Folder
from pai_runtime.task.interpreter import python_argv

RUNS = 15
RUNS_OF_COPY = 5
MOST_BYTES = 60_000_000
MOST_SECONDS = 0.5
MOST_TIMES = 4.0
SMALLEST_PART = 500_000
WITHOUT_SSH = "without ssh"
PLACE, CP = "place_bundle", "cp -a"
BARE, FIRST_BYTE = "bundle's python3 -I -S -c pass", "task container, first byte"

_AT_PREFIX = """
set -e
mount -t tmpfs tmpfs "$1/over"
mkdir "$1/over/upper" "$1/over/work"
mount -t overlay overlay -o "lowerdir=/usr/local,upperdir=$1/over/upper,workdir=$1/over/work" /usr/local
mkdir -p "$2"
mount --bind "$1/full" "$2"
cp "$2/runtime" "$3"
shift 3
exec "$@"
"""


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {"whole": _made(folder / "full"), WITHOUT_SSH: _made(folder / "less", _policy(folder))}
        _print_sizes(sizes)
        source, volume = str(folder / "full"), folder / "volume"
        copying = in_turn(
            RUNS_OF_COPY,
            {
                PLACE: _fresh(volume, _placing(source, volume)),
                CP: _fresh(volume, process(["cp", "-a", source, f"{volume}/bundle"])),
            },
        )
        print()
        targets = {PLACE: milliseconds(MOST_SECONDS)}
        _print(copying, CP, targets)
        started = _started(folder)
    print()
    _print(started, BARE, {FIRST_BYTE: times(MOST_TIMES)})
    return _missed(sum(sizes[WITHOUT_SSH].values()), copying[PLACE].cpu, started)


def _print(measured: Mapping[str, Timing], reference: str, targets: Mapping[str, str]) -> None:
    table(
        ("", "time", reference, "CPU", reference, "target"),
        [
            (
                name,
                milliseconds(each.median),
                times(each.median / measured[reference].median),
                milliseconds(each.cpu),
                times(each.cpu / measured[reference].cpu),
                targets.get(name, ""),
            )
            for name, each in measured.items()
        ],
    )


def _missed(size: int, copy: float, started: Mapping[str, Timing]) -> list[str]:
    ratio = started[FIRST_BYTE].median / started[BARE].median  # as of a local task
    return [
        *([f"the bundle without ssh has {megabytes(size)}"] if size > MOST_BYTES else []),
        *([f"copying the bundle takes {milliseconds(copy)}"] if copy > MOST_SECONDS else []),
        *([f"the task container's first byte takes {times(ratio)}"] if ratio > MOST_TIMES else []),
    ]


def _made(folder: Path, policy: Path | None = None) -> dict[str, int]:
    """The sizes of the parts of a bundle that is made here."""
    subprocess.run(
        [PROGRAM, "bundle", str(folder), *(["--policy", str(policy)] if policy else [])],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sizes: dict[str, int] = json.loads((folder / "bundle.json").read_bytes())["sizes"]
    return sizes


def _policy(folder: Path) -> Path:
    """One that allows all that is installed but ssh."""
    plugins = json.loads((folder / "full/bundle.json").read_bytes())["plugins"]
    rules = [
        {"id": each["id"], "distribution": each["distribution"], "versions": "*"}
        for each in plugins
        if each["distribution"] != "pai-ssh"
    ]
    path = folder / "policy.yaml"
    path.write_text(json.dumps({"policyVersion": 1, "plugins": rules}))
    return path


def _print_sizes(bundles: Mapping[str, Mapping[str, int]]) -> None:
    """The larger parts of each."""
    parts = sorted(bundles["whole"].items(), key=lambda part: -part[1])
    shown = [name for name, size in parts if size > SMALLEST_PART]
    rows = [(name, *(_shown(sizes.get(name)) for sizes in bundles.values())) for name in shown]
    rest = [sum(size for name, size in sizes.items() if name not in shown) for sizes in bundles.values()]
    rows += [
        ("the rest", *map(_shown, rest)),
        ("in all", *(_shown(sum(sizes.values())) for sizes in bundles.values())),
        ("target", "", _shown(MOST_BYTES)),
    ]
    table(("size", *bundles), rows)


def _shown(size: int | None) -> str:
    return f"{size / 1e6:.1f} MB" if size else ""


def _placing(source: str, volume: Path) -> Thing:
    """What the init container does, in a process of its own."""
    code = "import sys; from pathlib import Path; from pai_runtime.pod.bundle_copy import place_bundle; "
    argv = [sys.executable, "-c", f"{code}place_bundle(*map(Path, sys.argv[1:]))", source, str(volume)]
    return process(argv)


def _fresh(volume: Path, thing: Thing) -> Thing:
    def run() -> Sample:
        shutil.rmtree(volume, ignore_errors=True)
        volume.mkdir()
        return thing()

    return run


def _started(folder: Path) -> dict[str, Timing]:
    """The timings of what runs where a pod has the bundle."""
    (folder / "over").mkdir()
    path = write_job(folder / "job.yaml", job(["echo hello"]))
    argv = [PROGRAM, "plan", str(path), "--task", "worker/0", "--json"]
    (folder / "plan.json").write_bytes(subprocess.run(argv, capture_output=True, check=True).stdout)
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    mounting = ["sh", "-c", _AT_PREFIX, "sh", str(folder), PREFIX, LAUNCHER]
    inside = python_argv("benchmarks.bundle_start", str(folder))
    output = subprocess.run([*namespace, *mounting, *inside], stdout=subprocess.PIPE, check=True).stdout
    return {name: Timing(*timing) for name, timing in json.loads(output).items()}


def measure_starts(folder: Path) -> dict[str, Timing]:
    """The same, inside of the namespace."""
    runtime, logs = folder / "runtime.d", folder / "logs"
    plan = json.loads((folder / "plan.json").read_bytes())

    def prepared(thing: Thing) -> Thing:
        def run() -> Sample:
            for each in (runtime, logs):
                shutil.rmtree(each, ignore_errors=True)
                each.mkdir()
            (runtime / "plan.json").write_text(json.dumps({**plan, "folder": str(runtime)}))
            with Folder.at(runtime) as opened:
                hand_over(opened, Handover(str(logs)))
            return thing()

        return run

    os.environ["PAI_RUNTIME_DIR"] = str(runtime)
    return in_turn(
        RUNS,
        {
            BARE: process([f"{PREFIX}/bin/python3", "-I", "-S", "-c", "pass"]),
            FIRST_BYTE: prepared(first_byte([LAUNCHER])),
            "task container, whole": prepared(process([LAUNCHER])),
            "this machine's python -I -S -c pass": process([sys.executable, "-I", "-S", "-c", "pass"]),
        },
    )
