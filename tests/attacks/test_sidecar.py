"""What a task leaves on the volume of its pod for the sidecar that prints its log."""

import json
import os
import signal
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pai_pod import runtime_log
from pai_pod.runtime_log import KEPT, MOST_TOLD, print_runtime_log
from pai_pod.told_variables import MOST_BYTES, PREFIX, read_told, told_line
from pai_runtime.runs import log_follower
from pai_runtime.runs.log_follower import LogFollower
from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from tests.init_harness import volume

__all__ = ["volume"]

MIB = 1024 * 1024
LOG, VARIABLES, STATE = "logs/pod/runtime.log", "runtime.d/variables.json", "runtime.d/state.json"
ESCAPES = b"\x1b]0;owned\x07\x1b[2J\xff\0"

Printed = tuple[bytes, bytes]
Look = Callable[[Path], object]


def _nothing_happens(_volume: Path) -> None:
    pass


class Sidecar:
    """Prints the log of a volume in this process: between two looks, the task does what comes next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[bytes]) -> None:
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        self.pauses: list[float] = []

    def __call__(self, volume: Path, *looks: Look) -> Printed:
        """What it prints, and what it says; a signal ends it after the last look."""
        left = [*looks, _nothing_happens]

        def look(_numbers: object, pause: float) -> int | None:
            self.pauses.append(pause)
            if not left:
                return signal.SIGTERM
            left.pop(0)(volume)
            return None

        self._monkeypatch.setattr(signal, "sigtimedwait", look)
        self._monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
        assert print_runtime_log({"PAI_WORK_DIR": str(volume)}) == 0
        return self._capfd.readouterr()


@pytest.fixture
def sidecar(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Sidecar:
    return Sidecar(monkeypatch, capfdbinary)


def _append(data: bytes) -> Look:
    def look(volume: Path) -> None:
        with (volume / LOG).open("ab") as file:
            file.write(data)

    return look


def test_holes_in_a_log_are_passed_over(volume: Path, sidecar: Sidecar) -> None:
    looks = [_append(b"one\n"), _grow(1 << 37), _append(b"two\n"), _grow(1 << 38), _append(b"three\n")]
    out, _ = sidecar(volume, *looks)
    assert out.replace(b"\0", b"") == b"one\ntwo\nthree\n"
    assert len(out) < MIB  # the rest of a block that has data is no hole


def test_of_a_file_that_is_larger_than_a_log_grows_no_more_is_printed(
    volume: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "_MOST_OF_FILE", 3 * MIB)
    (volume / LOG).with_suffix(".log.1").write_bytes(b"x" * 5 * MIB)
    out, _ = sidecar(volume, *[_append(b"y" * MIB)] * 5)
    assert (out.count(b"x"), out.count(b"y")) == (3 * MIB, 3 * MIB)


def test_a_log_that_grows_for_ever_does_not_hold_up_the_end(
    volume: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(follower: LogFollower, most: int, then: Any = LogFollower.read) -> bytes:
        _append(b"more\n")(volume)
        return bytes(then(follower, most))

    monkeypatch.setattr(LogFollower, "read", read)
    monkeypatch.setattr(runtime_log, "_TO_THE_END", 0.05)
    _append(b"first\n")(volume)
    out, _ = sidecar(volume)
    assert out.startswith(b"first\nmore\n")
    assert out.endswith(b"more\n\n")
    assert out.count(b"[pai-runtime: some of the log is left out") == 1


def _link(path: Path) -> None:
    outside = path.parent / "outside"
    outside.write_text("sesame\n")
    path.symlink_to(outside)


def _link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder_link(path: Path) -> None:
    outside = path.parents[1] / "outside"
    path.parent.rename(outside)
    (outside / path.name).write_text("sesame\n")
    path.parent.symlink_to(outside)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _nothing(path: Path) -> None:
    path.parent.rmdir()


@pytest.mark.parametrize("name", [LOG, VARIABLES, STATE])
@pytest.mark.parametrize(
    "make", [_link, _link_to_device, _folder_link, _loop, os.mkfifo, Path.mkdir, _nothing]
)
def test_what_is_no_file_is_neither_followed_nor_waited_for(
    volume: Path, sidecar: Sidecar, name: str, make: Callable[[Path], None]
) -> None:
    make(volume / name)
    out, said = sidecar(volume)
    assert out == b""
    assert said.count(b"\n") <= 1


@pytest.mark.parametrize("name", [LOG, VARIABLES])
def test_a_file_that_is_closed_to_the_sidecar_is_said_at_most_once(
    volume: Path, sidecar: Sidecar, name: str
) -> None:
    path = volume / name
    path.write_text('{"A": {"source": "x"}}\n')
    path.chmod(0)
    out, said = sidecar(volume, *[_nothing_happens] * 5)
    assert bool(out) == (os.geteuid() == 0)
    assert said.count(b"\n") == (name == LOG and os.geteuid() != 0)


@pytest.mark.parametrize("name", [LOG, VARIABLES])
@pytest.mark.parametrize("make", [_link, os.mkfifo])
def test_a_file_that_is_swapped_before_it_is_opened_is_not_followed(
    volume: Path,
    sidecar: Sidecar,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    make: Callable[[Path], None],
) -> None:
    path, original = volume / name, Folder.open
    path.write_text("{}\n")

    def swapped(folder: Folder, opened: str) -> int:
        if opened == path.name and path.is_file() and not path.is_symlink():
            path.unlink()
            make(path)
        return original(folder, opened)

    monkeypatch.setattr(Folder, "open", swapped)
    out, _ = sidecar(volume)
    assert out == b""
    assert path.is_symlink() or path.is_fifo()


def _object(value: str) -> str:
    return f'{{"A": {{"source": "cmd", "value": {value}}}}}'


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (_object("[" + ",".join(["[" * 900 + "]" * 900] * 2000) + "]"), None),
        ("[" + "{}," * MIB + "{}]", None),
        ("[" * (4 * MIB), None),
        ('{"a":' * 500_000, None),
        (_object("[" * 20_000 + "]" * 20_000), None),
        (_object("9" * (3 * MIB)), None),
        (_object("NaN"), None),
        (_object("1e999"), None),
        (" " * (4 * MIB + 1), None),
        ("", None),
        ("\xff", None),
        ("[]", None),
        ("3", None),
        ('{"A": null}', None),
        ('{"A": "sesame"}', None),
        ('{"A": ["source"]}', None),
        ('{"A": {"value": "1"}}', None),
        (_object('"' + "x" * MIB + '"'), {}),
        (_object("[" + '"ab",' * 200_000 + "0]"), {}),
        ("{" + '"A": {"source": "x"},' * 50_000 + '"A": {"source": "y"}}', {"A": {"source": "y"}}),
        ('{"A": {"source": ["x"]}, "B": {"source": {}}}', {"A": {"source": ["x"]}, "B": {"source": {}}}),
        (_object(r'"\ud800\u001b]0;x\u0007\n"'), {"A": {"source": "cmd", "value": "\ud800\x1b]0;x\x07\n"}}),
    ],
    ids=lambda given: repr(given)[:30],
)
def test_variables_of_any_shape_take_little_memory_and_one_line_that_can_be_read(
    volume: Path, sidecar: Sidecar, written: str, told: Any
) -> None:
    (volume / VARIABLES).write_bytes(written.encode("latin-1"))
    tracemalloc.start()
    try:
        out, said = sidecar(volume)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 * MIB
    assert said == b""
    if told is None:
        assert out == b""
        return
    assert out.isascii()
    assert all(line.decode().isprintable() for line in out.splitlines())
    assert len(out.splitlines()[-1]) <= len(PREFIX) + MOST_BYTES
    assert read_told(out) == told


def test_variables_are_told_or_refused_however_deeply_they_are_nested() -> None:
    for depth in range(sys.getrecursionlimit()):  # at some, they can be read and not be written
        with suppress(ValueError):
            told_line(loads_untrusted(_object("[" * depth + "]" * depth).encode()))


def test_variables_that_change_all_the_time_are_read_so_often_and_not_more(
    volume: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, original = [], Folder.read

    def counted(folder: Folder, name: str, most: int) -> bytes:
        read.append(name)
        return original(folder, name, most)

    def change(volume: Path) -> None:
        number = len(list((volume / "runtime.d").iterdir()))
        (volume / "runtime.d" / f"old{number}").hardlink_to(volume / VARIABLES)  # keeps its inode
        (volume / VARIABLES).unlink()
        (volume / VARIABLES).write_text("[" * number)

    monkeypatch.setattr(Folder, "read", counted)
    (volume / VARIABLES).write_text("[")
    sidecar(volume, *[change] * (2 * MOST_TOLD))
    assert read.count("variables.json") == MOST_TOLD + 1


def _write(data: bytes) -> Look:
    return lambda volume: (volume / LOG).write_bytes(data)


def _grow(size: int) -> Look:
    def grow(volume: Path) -> None:
        with (volume / LOG).open("ab") as file:
            file.truncate(size)

    return grow


def _replace(data: bytes) -> Look:
    def replace(volume: Path) -> None:
        (volume / "aside").write_bytes(data)
        (volume / "aside").replace(volume / LOG)

    return replace


def _remove(volume: Path) -> None:
    (volume / LOG).unlink()


_GROWN = _grow(3 * MIB)


@pytest.mark.parametrize(
    ("looks", "printed"),
    [
        ([_write(ESCAPES + b"\n")], ESCAPES + b"\n"),
        ([_write(b"long line\n"), _write(b"short\n")], b"long line\nshort\n"),
        ([_write(b"one"), _replace(b"two")], b"onetwo\n"),
        ([_write(b"one\n"), _remove, _write(b"two\n")], b"one\ntwo\n"),
        ([_write(PREFIX + b"x"), _GROWN], PREFIX + b"x" + b"\n"),
    ],
)
def test_a_log_is_printed_whatever_becomes_of_it_in_little_memory(
    volume: Path, sidecar: Sidecar, looks: list[Look], printed: bytes
) -> None:
    tracemalloc.start()
    try:
        out, said = sidecar(volume, looks[0], *[_nothing_happens] * 2, *looks[1:])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    left_of_hole = b"\0" if looks[-1] is _GROWN else b""  # of the block that has data
    assert (out.translate(None, left_of_hole), said) == (printed, b"")
    assert peak < 8 * MIB


def test_files_without_end_in_the_place_of_those_that_were_rotated_are_not_all_looked_at(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = volume / "logs" / "pod"
    for number in range(1, 500):
        (folder / f"runtime.log.{number}").touch()
    (volume / LOG).write_text("live\n")
    looks, original = [], Folder.stat

    def counted(folder: Folder, name: str) -> os.stat_result:
        looks.append(name)
        return original(folder, name)

    monkeypatch.setattr(Folder, "stat", counted)
    follower = LogFollower(folder, "runtime.log")
    assert follower.read(100) + follower.read(100) == b"live\n"
    assert len(set(looks)) <= 2 + log_follower._MOST_FILES
    assert len(looks) <= log_follower._MOST_FILES**2
    follower.close()


@pytest.mark.parametrize("is_timed", [False, True])
def test_empty_files_that_come_faster_than_they_are_read_hold_nobody_up(
    volume: Path, monkeypatch: pytest.MonkeyPatch, *, is_timed: bool
) -> None:
    status, looks = Folder.stat, 0

    def replaced(folder: Folder, name: str) -> os.stat_result:
        nonlocal looks
        looks += name == "runtime.log"
        if name == "runtime.log" and looks % 2:  # the other look is at whether it is still what was opened
            _replace(b"")(volume)
        return status(folder, name)

    (volume / LOG).touch()
    follower = LogFollower(volume / "logs" / "pod", "runtime.log")
    assert not follower.read(100)  # the first of them is open
    monkeypatch.setattr(Folder, "stat", replaced)
    assert not (follower.read_timed(100) if is_timed else follower.read(100))
    assert looks > log_follower._MOST_FILES
    follower.close()


PLANS = [
    {"gang": True, "instances": {"worker": "2"}},
    {"gang": True, "instances": {"worker": [2]}},
    {"gang": True, "instances": {"worker": 1e308, "other": 1e308}},
    {"gang": True, "instances": {"worker": int("9" * 4000)}},
    {"gang": [], "instances": {"worker": 2}},
    {"gang": True, "instances": 2},
    {"gang": True},
    {"instances": {"worker": 2}},
    "plan",
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: repr(plan)[:40])
@pytest.mark.parametrize("outcome", ["ok", ["ok"], {"ok": "failed"}, None, "cancelled success failure", 1e9])
def test_no_plan_and_no_record_of_a_task_keeps_its_pod_for_longer_than_others_look_for_it(
    volume: Path, sidecar: Sidecar, plan: Any, outcome: Any
) -> None:
    (volume / "runtime.d" / "plan.json").write_text(json.dumps(plan))
    record = {"outcome": outcome, "role": "other", "index": 7, "exitCode": "0"}
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in record.items())
    (volume / "runtime.d" / "exit.yaml").write_text(lines)
    (volume / STATE).write_text(json.dumps({"phase": [outcome]}))
    assert sidecar(volume) == (b"", b"")
    assert sum(sidecar.pauses) <= KEPT + 5
