"""Distributed programs in tasks that are steps of a real Slurm, by which they would else be started."""

from pathlib import Path

import pytest

from tests.slurm_cluster import NEEDS
from tests.slurm_user import ON, log
from tests.support import ROOT, cli, content

pytestmark = pytest.mark.process


@pytest.mark.needs(*NEEDS, "openmpi-bin", "openssh-client", "openssh-server")
def test_mpirun_starts_a_process_in_each_task(slurm_runs: Path) -> None:
    ended = cli("run", ROOT / "examples/distributed/mpi.yaml", *ON)
    assert ended.returncode == 0, ended.stderr
    said = content(log(slurm_runs.parent, "mpi-1")).decode()
    assert {f"process {rank} of 2 is in task {rank}" for rank in (0, 1)} <= set(said.splitlines())
