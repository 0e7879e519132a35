"""What a task leaves in the directory of a local run for those who look at it there."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs import log_pieces
from pai_runtime.runs.log_pieces import LogPieces
from pai_runtime.runs.reader import LogName
from pai_runtime.runs.state import RunTask, Unreadable, read_run
from pai_runtime.terminal.task_logs import WantedLogs, print_logs
from tests.played_run import PlayedRun

MIB = 1024 * 1024
TASK = RunTask("worker", 0, "running", None, 0, 0.0, None)

Read = Callable[[Path], object]


def _variables(run: Path) -> object:
    try:
        return LocalRunReader(run).variables(TASK).known or None
    except (OSError, ValueError):
        return None


def _run(run: Path) -> object:
    found = read_run(run)
    return None if isinstance(found, Unreadable) else found


READ: dict[str, Read] = {"worker/0/variables.json": _variables, "run.json": _run}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize(
    "written",
    [
        b"[" + b"{}," * (2 * MIB) + b"{}]",
        b"[" + b",".join([b"[" * 900 + b"]" * 900] * 3000) + b"]",
        b'{"a":' + b"[" * (5 * MIB),
        b"[" * 50_000 + b"]" * 50_000,
    ],
    ids=lambda given: repr(given)[:30],
)
def test_json_of_any_shape_is_refused_before_it_takes_memory(
    tmp_path: Path, name: str, written: bytes
) -> None:
    PlayedRun(tmp_path).task_folder("worker/0")
    (tmp_path / name).write_bytes(written)
    tracemalloc.start()
    try:
        assert READ[name](tmp_path) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * MIB


LONG = b"x" * 4 * MIB


@pytest.mark.parametrize("kind", ["user", "runtime"])
@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize(
    ("written", "lines", "left"),
    [
        (LONG + b"end", 1, None),
        (LONG + b"\nend\n", 2, None),
        (LONG + b"\nend\n", 1, b"end\n"),
        (LONG + b"\n" + LONG[: MIB // 8], 1, LONG[: MIB // 8]),
        (b"line\n" * 65_536, MIB, None),
        (b"line\n" * 65_536, 1000, b"line\n" * 1000),
    ],
    ids=lambda given: repr(given)[-12:],
)
def test_of_the_last_lines_of_a_log_the_end_is_left_if_they_take_too_much_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: bytes,
    lines: int,
    left: bytes | None,
    *,
    is_timed: bool,
    kind: LogName,
) -> None:
    monkeypatch.setattr(log_pieces, "MOST_OF_TAIL", MIB // 4)
    played = PlayedRun(tmp_path, worker=1)
    path = "user-all/current" if kind == "user" else "runtime.log"
    (played.task_folder("worker/0/logs/user-all").parent / path).write_bytes(written)
    pieces = LogPieces(played.reader.log(TASK, kind), kind, None, is_timed=is_timed)
    tracemalloc.start()
    try:
        size = pieces.skip_to_tail(lines, len(written))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    found = b"".join(data for _, data in iter(pieces.next, None))
    assert len(found) == size
    assert pieces.is_tail_cut == (left is None)
    if left is None:
        assert size > 5000
        assert written.endswith(found)
    else:
        assert found == left


def test_that_the_beginning_of_a_line_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(log_pieces, "MOST_OF_TAIL", MIB // 4)
    played = PlayedRun(tmp_path, worker=1)
    (played.task_folder("worker/0/logs/user-all") / "current").write_bytes(LONG + b"end")
    wanted = WantedLogs("user", None, 1, None, prefixed=False, timestamps=False, follow=False)
    print_logs(played.reader, [TASK], wanted)
    shown, said = capfdbinary.readouterr()
    assert shown.endswith(b"xend")
    assert len(shown) < MIB
    assert said.count(b"\n") == 1
