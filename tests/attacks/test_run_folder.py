"""What a task leaves in the directory of a local run for those who look at it there."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.state import RunTask, Unreadable, read_run
from tests.played_run import PlayedRun

MIB = 1024 * 1024
TASK = RunTask("worker", 0, "running", None, 0, 0.0, None)

Read = Callable[[Path], object]


def _variables(run: Path) -> object:
    try:
        return LocalRunReader(run).variables(TASK) or None
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
