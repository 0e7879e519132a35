"""container: the start of a task on a node that has the images, as far as it is ours, and its parts.

That is the init container of a pod on Kubernetes, and the task container from its command to the user's first
byte: with a bundle that init copies, and with one from an image volume. What a kubelet does is not in it.

Targets: those of the parts, and 2.5 s in all; the task container at most 4 x of the bundle's bare
interpreter. Needs root, since the bundle has one fixed path.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
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
    timings,
)
from pai_pod.handover import Handover, hand_over
from pai_task.folder import Folder
from pai_task.paths import BUNDLE, LAUNCHER, VOLUME

RUNS, RUNS_OF_INIT = 25, 5
MOST_TIMES = 4.0
COMMAND = "echo hello"
STARTED, BARE = "task container, first byte", "the bundle's python -I -S -c pass"
BARE_HERE, CP, TAR, BYTES = "python -I -c pass", "cp -a", "tar | tar", "its bytes as one file"
COPY, IMAGE_VOLUME = "copy", "image volume"
WHOLE = "in all"
PARTS = {
    "init: its start": (0.4, BARE_HERE),
    "init: load and plan": (0.3, BARE_HERE),
    "init: barrier": (0.1, BARE_HERE),
    "init: handover": (0.1, BARE_HERE),
    "init: the rest of the bundle": (1.0, CP),
    STARTED: (0.3, BARE),
    WHOLE: (2.5, CP),
}
"""The seconds of CPU time that each may take, and what it stands beside."""
_MOUNT = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
_INSIDE = "import sys; sys.path[:] = {path}; from benchmarks.container import measure; measure({folder!r})"
_INIT = "import sys; sys.path[:] = {path}; from benchmarks.parts_of_init import main; main({began!r})"


def main() -> list[str]:
    if os.geteuid():
        print("  not measured: to mount the bundle at its path needs root")
        return []
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([PROGRAM, "bundle", f"{name}/bundle"], stdout=subprocess.DEVNULL, check=True)
        _prepare(Path(name))
        mounting = ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", f"{name}/volume", VOLUME]
        inside = [sys.executable, "-c", _INSIDE.format(path=sys.path, folder=name)]
        is_new = not Path(VOLUME).exists()
        Path(VOLUME).mkdir(parents=True, exist_ok=True)
        try:
            output = subprocess.run([*mounting, *inside], stdout=subprocess.PIPE, check=True).stdout
        finally:
            if is_new:
                Path(VOLUME).rmdir()
    measured = [
        {name: Timing(**timing) for name, timing in part.items()} for part in json.loads(output).values()
    ]
    return [*_print_parts(*measured[:3]), *_print_container(measured[3])]


def _print_parts(
    copied: Mapping[str, Timing], mounted: Mapping[str, Timing], references: Mapping[str, Timing]
) -> list[str]:
    rows, missed = [], []
    for delivery, measured in ((COPY, copied), (IMAGE_VOLUME, mounted)):
        for name, timing in measured.items():
            most, beside = PARTS[name]
            ratio = f"{times(timing.cpu / references[beside].cpu)} {beside}"
            row = (f"{delivery}, {name}", milliseconds(timing.median), milliseconds(timing.cpu))
            rows.append((*row, ratio, milliseconds(most)))
            if timing.cpu > most:
                missed.append(f"{delivery}, {name} takes {milliseconds(timing.cpu)}")
    rows += [
        (name, milliseconds(each.median), milliseconds(each.cpu), "", "") for name, each in references.items()
    ]
    table(("", "time", "CPU", "CPU beside", "target"), rows)
    print()
    return missed


def _print_container(measured: Mapping[str, Timing]) -> list[str]:
    bare = measured[BARE].median
    rows = [
        (name, milliseconds(timing.median), milliseconds(timing.cpu), times(timing.median / bare))
        for name, timing in measured.items()
    ]
    table(("", "time", "CPU", BARE), rows)
    ratio = measured[STARTED].median / bare
    print(f"\n  {STARTED}: {times(ratio)} of {BARE} (target: {times(MOST_TIMES)})")
    return [f"the start of a task container takes {times(ratio)}"] if ratio > MOST_TIMES else []


def _prepare(folder: Path) -> None:
    """The empty volume of a pod, what Kubernetes mounts for its job, and the environment of its init."""
    from tests.init_harness import run_pod  # noqa: PLC0415 - only here, as measuring starts small

    given = job([COMMAND])
    given["prerequisites"][0]["uri"] = "localhost:1/image"  # where nobody listens
    pod = run_pod(folder / "pod", given, {"worker": "localhost"}, gang=True, POD_IP="127.0.0.1")
    own = {"PAI_TASK_INDEX": "0", "PAI_WORK_DIR": VOLUME, "PAI_RUNTIME_BUNDLE": f"{folder}/bundle"}
    (folder / "environment").write_text(json.dumps({**pod.environment, **own, "PATH": "/usr/bin:/bin"}))
    (folder / "volume").mkdir()


def measure(folder: str) -> None:
    """Measure where the volume is mounted, and print the figures."""
    rounds = []
    for _ in range(RUNS_OF_INIT):
        mounted = _started(folder, is_mounted=True)
        rounds.append((_started(folder, is_mounted=False), mounted, _references(folder)))
    measured = [timings(each) for each in zip(*rounds, strict=True)]
    _empty(VOLUME)
    _init(folder)
    shell = ["bash", "-c", COMMAND]
    container = in_turn(
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
    figures = [*measured, container]
    print(
        json.dumps(
            {at: {name: asdict(timing) for name, timing in each.items()} for at, each in enumerate(figures)}
        )
    )


def _started(folder: str, *, is_mounted: bool) -> dict[str, Sample]:
    """The parts of one start in a new pod."""
    _empty(VOLUME)
    with _bundle_mounted(folder) if is_mounted else nullcontext():
        parts = _init(folder)
        parts[STARTED] = first_byte([LAUNCHER])()
    whole = Sample(sum(each.clock for each in parts.values()), sum(each.cpu for each in parts.values()))
    return {**parts, WHOLE: whole}


@contextmanager
def _bundle_mounted(folder: str) -> Iterator[None]:
    """As an image volume is: read-only, in both containers."""
    Path(BUNDLE).mkdir()
    subprocess.run(["mount", "--bind", f"{folder}/bundle", BUNDLE], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", BUNDLE], check=True)
        yield
    finally:
        subprocess.run(["umount", BUNDLE], check=True)


def _init(folder: str) -> dict[str, Sample]:
    environment = json.loads(Path(folder, "environment").read_text())
    code = _INIT.format(path=sys.path, began=str(time.perf_counter()))
    argv = [sys.executable, "-c", code]
    output = subprocess.run(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    ).stdout
    found = {name: Sample(*each) for name, each in json.loads(output).items()}
    took = {
        "its start": ("start",),
        "load and plan": ("jobConfig", "runtimePlugins"),
        "barrier": ("peerBarrier",),
        "handover": ("handover",),
        "the rest of the bundle": ("end", "copy"),
    }
    return {
        f"init: {name}": Sample(sum(found[each].clock for each in of), sum(found[each].cpu for each in of))
        for name, of in took.items()
    }


def _references(folder: str) -> dict[str, Sample]:
    """What the parts stand beside: an interpreter, and other ways to copy the bundle or as many bytes."""
    whole = Path(folder, "whole")
    if not whole.exists():
        subprocess.run(["tar", "-cf", whole, "-C", folder, "bundle"], check=True)
    _empty(VOLUME)
    found = {BARE_HERE: process(BARE_PYTHON)()}
    found[CP] = process(["cp", "-a", f"{folder}/bundle", BUNDLE])()
    found[BARE] = process([f"{BUNDLE}/bin/python3", "-I", "-S", "-c", "pass"])()
    _empty(VOLUME)
    found[TAR] = process(["sh", "-c", f"tar -cf - -C {folder} bundle | tar -xf - -C {VOLUME}"])()
    _empty(VOLUME)
    found[BYTES] = process(["cp", str(whole), f"{VOLUME}/whole"])()
    return found


def _empty(folder: str) -> None:
    for path in Path(folder).iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _handed_over(thing: Thing, **secrets: str) -> Thing:
    def run() -> Sample:
        with Folder.at(f"{VOLUME}/runtime.d") as folder:
            hand_over(folder, Handover(f"{VOLUME}/logs", secrets))
        return thing()

    return run
