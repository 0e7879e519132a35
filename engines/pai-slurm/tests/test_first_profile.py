"""``engines add slurm``: a first profile from what a real Slurm says."""

from pathlib import Path

import pytest

from tests.slurm_cluster import NEEDS, SlurmCluster
from tests.support import ROOT, cli, content

pytestmark = [pytest.mark.process, pytest.mark.needs(*NEEDS)]


@pytest.fixture
def profiles(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's ``engines.yaml``, which is not there yet."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.config))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config/pai-runtime/engines.yaml"


def test_the_profile_is_one_that_jobs_can_be_checked_for_and_is_never_overwritten(
    profiles: Path, tmp_path: Path
) -> None:
    added = cli("engines", "add", "slurm", "lab", "--runs", tmp_path / "runs")
    assert added.returncode == 0, added.stderr
    assert added.stdout.splitlines()[0] == str(profiles)
    assert '\n    partition: "main"  # ' in profiles.read_text()
    checked = cli("validate", ROOT / "examples/hello.yaml", "--on", "lab")
    assert checked.returncode == 0, checked.stderr
    before = content(profiles)
    again = cli("engines", "add", "slurm")  # with the name that the cluster has
    assert (again.returncode, content(profiles)) == (1, before)
    assert "    engine: slurm\n" in again.stdout


@pytest.mark.parametrize("name", ["", "a b", "-", "a:b", "x" * 64])
def test_a_name_that_is_none_writes_nothing(profiles: Path, name: str) -> None:
    assert cli("engines", "add", "slurm", "--", name).returncode == 2
    assert not profiles.exists()


def test_without_slurm_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    done = cli("engines", "add", "slurm")
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])


def test_an_engine_that_brings_no_profile_is_no_command() -> None:
    assert cli("engines", "add", "nothing").returncode == 2
    assert cli("engines").returncode == 2
