"""bundle: its size by part, and copying it onto a pod's volume, beside `cp -a` on the same disk.

Targets: 60 MB without ssh; copied in 0.5 s.
"""

import json
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
    in_turn,
    megabytes,
    milliseconds,
    process,
    table,
    times,
)

RUNS = 5
MOST_BYTES = 60_000_000
MOST_SECONDS = 0.5
SMALLEST_PART = 500_000
WITHOUT_SSH = "without ssh"
_PLACE = """
import sys
from pathlib import Path
from pai_pod.bundle_copy import bundle_on_its_way
with bundle_on_its_way(*map(Path, sys.argv[1:])) as place:
    place()
"""
PLACE, CP = "init's copy", "cp -a"


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {"whole": _made(folder / "full"), WITHOUT_SSH: _made(folder / "less", _policy(folder))}
        _print_sizes(sizes)
        source, volume = str(folder / "full"), folder / "volume"
        copying = in_turn(
            RUNS,
            {
                PLACE: _fresh(volume, _placing(source, volume)),
                CP: _fresh(volume, process(["cp", "-a", source, f"{volume}/bundle"])),
            },
        )
        print()
        _print(copying)
    return _missed(sum(sizes[WITHOUT_SSH].values()), copying[PLACE].cpu)


def _print(measured: Mapping[str, Timing]) -> None:
    table(
        ("", "time", CP, "CPU", CP, "target"),
        [
            (
                name,
                milliseconds(each.median),
                times(each.median / measured[CP].median),
                milliseconds(each.cpu),
                times(each.cpu / measured[CP].cpu),
                milliseconds(MOST_SECONDS) if name == PLACE else "",
            )
            for name, each in measured.items()
        ],
    )


def _missed(size: int, copy: float) -> list[str]:
    return [
        *([f"the bundle without ssh has {megabytes(size)}"] if size > MOST_BYTES else []),
        *([f"copying the bundle takes {milliseconds(copy)}"] if copy > MOST_SECONDS else []),
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
    return process([sys.executable, "-c", _PLACE, source, str(volume)])


def _fresh(volume: Path, thing: Thing) -> Thing:
    def run() -> Sample:
        shutil.rmtree(volume, ignore_errors=True)
        volume.mkdir()
        return thing()

    return run
