"""The commands of Slurm that have been started are ended when nobody wants their answers any more."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pai_document.problems import Problems
from pai_runtime.engine import CannotRun, ClusterError, RunRequest
from pai_slurm.allocation_engine import AllocationEngine
from pai_slurm.checks import check_cluster
from tests.job_harness import build
from tests.support import job

pytestmark = pytest.mark.process

HANGS = "exec sleep 100"
ONE_CPU = "echo 'main*|1|1|8000|(null)|infinite'"


def started() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def install(folder: Path, commands: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of a Slurm that does not answer them all, before those of this machine."""
    (folder / "bin").mkdir()
    for name, script in commands.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")


def test_the_engine_of_an_allocation_asks_nothing_before_there_is_a_run_nor_after_one_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    install(tmp_path, {"scontrol": f'[ "$2" = job ] || {HANGS}'}, monkeypatch)
    before = started()
    engine = AllocationEngine()
    assert started() <= before
    new = engine.new_run(RunRequest("ada", out=tmp_path / "out"))
    with pytest.raises(CannotRun):
        new.place(build(job()))
    new.discard()
    assert started() <= before


def test_a_partition_that_is_not_known_leaves_no_test_of_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, {"sbatch": HANGS, "sinfo": "exit 1"}, monkeypatch)
    before = started()
    with pytest.raises(ClusterError):
        check_cluster(build(job()), tmp_path, {}, "", Problems())
    assert started() <= before


def test_what_the_partition_has_not_is_told_whatever_becomes_of_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, {"sbatch": HANGS, "sinfo": ONE_CPU}, monkeypatch)
    before, problems = started(), Problems()
    big = job(worker={"resourcePerInstance": {"cpu": 2, "memoryMB": 100, "gpu": 0}})
    check_cluster(build(big), tmp_path, {}, "", problems)
    assert [problem.code for problem in problems.in_order] == ["too-much"]
    assert started() <= before
