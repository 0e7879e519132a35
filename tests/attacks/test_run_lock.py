"""The lock of a run: one run has a directory, and nobody who may not write to it holds anything up."""

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_runtime.engines.local import reader
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.errors import CannotRun
from pai_runtime.runs.run_folder import RunFolder
from pai_runtime.runs.state import Run
from pai_task.removal import remove
from tests.job_harness import build
from tests.played_run import PlayedRun
from tests.support import cli, job, write_job


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.process
def test_of_two_runs_in_one_directory_the_second_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = RunFolder(build(job()).name, out)
    ended = cli("run", write_job(tmp_path, job()), "--out", out)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert names(out) == ["run.lock"]
    first.unlock()
    assert cli("run", tmp_path / "job.yaml", "--out", out).returncode == 0


@pytest.mark.process
def test_a_directory_that_got_its_files_before_the_lock_is_refused_as_any_that_is_not_empty(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert cli("run", write_job(tmp_path, job()), "--out", out).returncode == 0
    before = names(out)
    with pytest.raises(CannotRun):
        RunFolder(build(job()).name, out)
    assert names(out) == before


def test_a_run_that_was_taken_back_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    for out in (tmp_path / "given", tmp_path / "new/inner"):
        RunFolder(build(job()).name, out).discard()
    assert names(tmp_path) == ["given"]
    assert names(tmp_path / "given") == []


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@pytest.mark.process
def test_a_lock_of_somebody_else_on_the_directory_holds_nothing_up(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with locked(out):
        assert cli("run", write_job(tmp_path, job()), "--out", out).returncode == 0
        assert cli("rm", out).returncode == 0
    assert not out.exists()


@pytest.mark.process
@pytest.mark.parametrize(
    ("before", "options", "mode"),
    [
        (None, [], 0o700),
        (0o755, [], 0o700),
        (0o700, [], 0o700),
        (None, ["--share"], 0o755),
        (0o775, ["--share"], 0o775),
        (0o700, ["--share"], 0o700),
    ],
)
def test_others_look_into_a_run_only_if_it_is_shared_and_never_lock_it(
    tmp_path: Path, before: int | None, options: list[str], mode: int
) -> None:
    out = tmp_path / "run"
    if before is not None:
        out.mkdir()
        out.chmod(before)
    umask = os.umask(0o022)
    try:
        assert cli("run", write_job(tmp_path, job()), "--out", out, *options).returncode == 0
    finally:
        os.umask(umask)
    assert out.stat().st_mode & 0o777 == mode
    assert (out / "run.lock").stat().st_mode & 0o777 == 0o600


def shown(played: PlayedRun) -> str:
    run = played.reader.run()
    assert isinstance(run, Run)
    return run.state


def test_a_run_whose_lock_is_gone_is_lost_and_one_with_a_lock_is_not(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.write()
    with played.engine():
        assert shown(played) == "running"
    assert shown(played) == "lost"
    fd = os.open(tmp_path / "run", os.O_RDONLY)
    remove(fd, "run.lock")
    os.close(fd)
    assert shown(played) == "lost"


@pytest.mark.process
def test_a_process_that_got_the_number_of_the_engine_meanwhile_is_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        holders = iter([other.pid, None])
        monkeypatch.setattr(reader, "lock_holder", lambda _folder: next(holders))
        with pytest.raises(ProcessLookupError):
            LocalRunReader(tmp_path).cancel()
        other.terminate()
        assert other.wait() == -signal.SIGTERM
