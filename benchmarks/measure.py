"""What the benchmarks have in common: whole processes, timed turn by turn, and a table of the figures."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = str(Path(sys.executable).with_name("pai-runtime"))
BARE = "python -I -c pass"
BARE_PYTHON = [sys.executable, "-I", "-c", "pass"]


class Sample(NamedTuple):
    """The seconds of one run, on the clock and of CPU time, and its peak of memory in bytes if known."""

    clock: float
    cpu: float
    memory: int = 0


@dataclass(frozen=True)
class Timing:
    """Several runs of one thing: the median on the clock, and the least CPU time and memory.

    Targets are judged by the CPU time: what else a machine does makes the clock useless, and that hardly.
    """

    median: float
    cpu: float
    memory: int = 0


Thing = Callable[[], Sample]


def in_turn(runs: int, things: Mapping[str, Thing]) -> dict[str, Timing]:
    """The timings of all things, one run of each in turn, after one that does not count."""
    for thing in things.values():
        thing()
    return timings([{name: thing() for name, thing in things.items()} for _ in range(runs)])


def timings(rounds: Sequence[Mapping[str, Sample]]) -> dict[str, Timing]:
    """Of rounds that have all the same things."""
    return {
        name: Timing(
            statistics.median(each[name].clock for each in rounds),
            min(each[name].cpu for each in rounds),
            min(each[name].memory for each in rounds),
        )
        for name in rounds[0]
    }


def process(argv: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Thing:
    """A process from its start to its end; it has to succeed, and its output is dropped."""

    def run() -> Sample:
        nowhere = subprocess.DEVNULL
        began = time.perf_counter()
        started = subprocess.Popen(argv, cwd=cwd, env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere)
        _, status, usage = os.wait4(started.pid, 0)
        elapsed = time.perf_counter() - began
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            raise subprocess.CalledProcessError(started.returncode, argv)
        return Sample(elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)

    return run


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def filled_folder(fill: Callable[[Path], None]) -> Iterator[Path]:
    """A temporary folder that `fill` has filled, in a process of its own.

    What a process has when it forks counts as its child's memory too, so the one that measures keeps small.
    """
    with tempfile.TemporaryDirectory() as name:
        writer = get_context("fork").Process(target=fill, args=(Path(name),))
        writer.start()
        writer.join()
        yield Path(name)


def first_byte(argv: Sequence[str], cwd: Path | None = None) -> Thing:
    """A process from its start to the first byte on its standard output."""

    def run() -> Sample:
        before = _cpu_of_children()
        began = time.perf_counter()
        with subprocess.Popen(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as started:
            assert started.stdout is not None  # noqa: S101 - for the type checker
            byte = started.stdout.read(1)
            elapsed = time.perf_counter() - began
            started.stdout.read()
        if not byte or started.returncode:
            raise RuntimeError(f"{argv[0]} ended with {started.returncode} and {byte!r}")
        return Sample(elapsed, _cpu_of_children() - before)

    return run


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the first one left and the others right."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    for line in lines:
        cells = [f"{cell:{'>' if column else '<'}{widths[column]}}" for column, cell in enumerate(line)]
        print("  " + "   ".join(cells).rstrip())


def beside_bare_python(title: str, measured: Mapping[str, Timing], judged: str, most: float) -> list[str]:
    """Print timings beside `BARE`, which is one of them; the one that takes more than `most` times of it."""
    ratios = {name: timing.cpu / measured[BARE].cpu for name, timing in measured.items()}
    table(
        (title, "time", "CPU", f"CPU beside {BARE}", "target"),
        [
            (
                name,
                milliseconds(timing.median),
                milliseconds(timing.cpu),
                times(ratios[name]),
                times(most) if name == judged else "",
            )
            for name, timing in measured.items()
        ],
    )
    return [f"{judged} takes {times(ratios[judged])} of {BARE}"] if ratios[judged] > most else []


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"  # noqa: PLR2004


def megabytes(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def times(ratio: float) -> str:
    return f"{ratio:.2f} x" if ratio < 20 else f"{ratio:.0f} x"  # noqa: PLR2004


def job(
    commands: Sequence[str],
    prerequisites: Sequence[Mapping[str, Any]] = (),
    uses: Sequence[str | Mapping[str, Any]] = (),
    **fields: Any,
) -> dict[str, Any]:
    """A job of one task, which uses the prerequisites named in `uses`."""
    return {
        "protocolVersion": 2,
        "name": "benchmark",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "example/image"}, *prerequisites],
        "taskRoles": {
            "worker": {
                "dockerImage": "image",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
                "prerequisites": list(uses),
                "commands": list(commands),
            }
        },
        **fields,
    }


def callback(event: str, *commands: str) -> dict[str, Any]:
    return {"event": event, "commands": list(commands)}


def write_job(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a job file in the way in which people write them: in YAML's block style."""
    import yaml  # noqa: PLC0415 - only here, so that measuring starts with little loaded

    path.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    return path
