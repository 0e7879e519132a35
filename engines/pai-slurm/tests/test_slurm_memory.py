"""A real Slurm that limits the memory of steps by cgroups."""

from pathlib import Path

import pytest

from tests.slurm_cluster import LIMITS_MEMORY, NEEDS
from tests.slurm_user import role, run
from tests.support import exit_record, job

pytestmark = pytest.mark.process


@pytest.mark.needs(*NEEDS, "memory cgroup")
@pytest.mark.parametrize("slurm", [LIMITS_MEMORY], ids=["cgroups"], indirect=True)
def test_a_task_that_takes_more_memory_than_it_asked_for_is_told_as_out_of_memory(
    slurm_runs: Path, tmp_path: Path
) -> None:
    takes = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"
    ended = run(tmp_path, job(name="greedy", taskRoles={"worker": role(takes)}))
    record = exit_record(slurm_runs / "greedy-1/greedy-1/worker/0")
    assert (record["phrase"], record["originUserExitCode"]) == ("HostOutOfMemory", 137)
    assert ended.returncode == record["exitCode"]
