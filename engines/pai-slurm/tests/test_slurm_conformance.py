"""The engine for Slurm passes the tests that every engine has to pass, on a real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("pai_conformance")

from pai_conformance import Conformance, Stage  # noqa: E402 - rewritten, as above
from pai_runtime.engines.profiles import find_profile  # noqa: E402 - as above
from pai_slurm.cluster import SlurmCluster  # noqa: E402 - as above
from tests.piped_stage import PipedStage  # noqa: E402 - as above
from tests.slurm_cluster import NEEDS  # noqa: E402 - as above

pytestmark = pytest.mark.process


class SlurmStage(PipedStage):
    """The cluster of the profile ``lab``, whose nodes are this machine."""

    def opened(self) -> SlurmCluster:
        return SlurmCluster(find_profile("lab"))


@pytest.mark.needs(*NEEDS)
class TestSlurmEngine(Conformance):
    @pytest.fixture
    def stage(self, slurm_runs: Path, tmp_path: Path) -> Iterator[Stage]:
        assert not slurm_runs.exists()
        made = SlurmStage(tmp_path)
        yield made
        made.close()
