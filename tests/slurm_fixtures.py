"""A cluster for the tests of the engine for Slurm, and a user with a profile of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_cluster import SlurmCluster, running_slurm


@pytest.fixture
def slurm(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """A real Slurm of two nodes, which has seen no other test; it needs `tests.slurm_cluster.NEEDS`.

    A parameter has further lines of its configuration.
    """
    with running_slurm(more=getattr(request, "param", ())) as running:
        yield running


@pytest.fixture
def slurm_runs(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of runs of the profile ``lab``, which is all that this user has configured."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.config))
    config = tmp_path / "config"
    (config / "pai-runtime").mkdir(parents=True)
    runs = tmp_path / "runs"
    write_profile(config, runs=str(runs), partition="main")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return runs


def write_profile(config: Path, **fields: Any) -> None:
    """Write the profile ``lab`` of a cluster of Slurm into a directory of configuration."""
    document = {"enginesVersion": 1, "engines": {"lab": {"engine": "slurm", **fields}}}
    (config / "pai-runtime" / "engines.yaml").write_text(json.dumps(document))
