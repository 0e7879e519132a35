"""Examples of distributed training, run for real: frameworks find their peers, and again after a retry."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.job_environment import job_environment
from tests.support import ROOT, cli

EXAMPLES = ROOT / "examples/distributed"

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]  # JAX is installed the first time


def run(
    name: str, out: Path, *args: str | Path, programs: str = "/usr/bin"
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    return cli("run", EXAMPLES / f"{name}.yaml", "--out", out, *args, env=env)


@pytest.mark.needs("python3-torch", "user namespaces")
def test_pytorch_goes_on_from_its_checkpoint_after_a_worker_was_killed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    ended = run("torch", tmp_path / "run", "--storage", f"checkpoints={tmp_path / 'checkpoints'}")
    assert ended.returncode == 0, ended.stderr
    for rank in (0, 1):
        assert f"worker/{rank} | rank {rank} of 2 starts with epoch 0" in ended.stdout
        assert f"worker/{rank} | rank {rank} of 2 starts with epoch 3" in ended.stdout
    epochs = [line.split(":")[0] for line in ended.stdout.splitlines() if "| epoch" in line]
    assert epochs == [f"worker/0 | epoch {number}" for number in range(6)]
    assert "restarting the job (1 of 1)" in ended.stderr


@pytest.mark.needs("host name", "jax")
def test_jax_adds_up_over_all_processes(tmp_path: Path) -> None:
    ended = run("jax", tmp_path / "run", programs=str(job_environment("jax")))
    assert ended.returncode == 0, ended.stderr
    for rank in (0, 1):
        assert f"worker/{rank} | process {rank} of 2: the sum is 3" in ended.stdout


@pytest.mark.needs("openmpi-bin", "openssh-client", "openssh-server")
def test_mpi_starts_a_process_in_each_task_of_the_host_file(tmp_path: Path) -> None:
    ended = run("mpi", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    for rank in (0, 1):
        assert f"worker/0 | process {rank} of 2 is in task {rank}" in ended.stdout
