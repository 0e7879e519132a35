"""A cluster for the tests of this distribution, and a home with a profile of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm_cluster import SlurmCluster, running_slurm


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    """A real Slurm of two nodes; what uses it needs `NEEDS`."""
    with running_slurm() as running:
        yield running


@pytest.fixture
def runs(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of runs of the profile ``lab``, which is all that this user has configured."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.config))
    config = tmp_path / "config"
    (config / "pai-runtime").mkdir(parents=True)
    runs = tmp_path / "runs"
    (config / "pai-runtime" / "engines.yaml").write_text(
        f"enginesVersion: 1\nengines:\n  lab: {{engine: slurm, runs: '{runs}', partition: main}}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return runs
