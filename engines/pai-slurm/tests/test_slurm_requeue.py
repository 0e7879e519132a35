"""Jobs that a real Slurm starts again, if their user wants that: as another attempt, never twice at once."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_cluster import NEEDS, SlurmCluster
from tests.slurm_user import ON, detached, listed, log, role, state
from tests.support import PROGRAM, cli, content, job, until, write_job

pytestmark = [pytest.mark.process, pytest.mark.needs(*NEEDS)]

PREEMPTS = (
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    "PartitionName=urgent Nodes=ALL PriorityTier=10",
)
GRACE = "PartitionName=DEFAULT GraceTime=60"
URGENT = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")


@pytest.fixture
def here(slurm_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert slurm_runs.parent == tmp_path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").write_text("none")
    return tmp_path


@pytest.fixture
def document(here: Path) -> dict[str, Any]:
    """A job that ends in its second attempt."""
    commands = (
        "trap 'exit 5' TERM",
        "mkdir running",  # of which there is one in each working directory
        f"echo $FC_FRAMEWORK_ATTEMPT_ID <% $secrets.key %> $(cat {here}/checkpoint) >> {here}/attempts",
        f"echo saved > {here}/checkpoint",
        "echo up",
        "test $FC_FRAMEWORK_ATTEMPT_ID = 1 || while :; do sleep 0.1; done",
    )
    return job(name="again", secrets={"key": "s3cr3t"}, taskRoles={"worker": role(*commands)})


def is_put_back(slurm: SlurmCluster, number: str) -> bool:
    """Whether a job waits for what Slurm makes each one wait that it starts again."""
    return "BeginTime" in slurm.call("squeue", "--noheader", "--format=%r", f"--jobs={number}")


def job_id(here: Path) -> str:
    return str(json.loads((here / "runs/again-1/job.json").read_text())["id"])


@pytest.mark.parametrize(
    "slurm", [PREEMPTS, (*PREEMPTS, GRACE)], ids=["at once", "with time to end"], indirect=True
)
def test_a_job_that_is_preempted_finds_its_checkpoint_when_it_starts_again_and_is_followed_to_its_end(
    here: Path, slurm: SlurmCluster, document: dict[str, Any]
) -> None:
    argv = [str(PROGRAM), "run", str(write_job(here, document)), *ON, "--plain", "--requeue"]
    follower = subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: b"up\n" in content(log(here, "again-1")))
    slurm.call("sbatch", *URGENT)
    number = job_id(here)
    until(lambda: is_put_back(slurm, number))
    assert listed("again-1")["queued"]
    slurm.call("scontrol", "update", f"jobid={number}", "StartTime=now")
    said, _ = follower.communicate(timeout=100)
    assert follower.returncode == 0, said
    assert (here / "attempts").read_text() == "0 s3cr3t none\n1 s3cr3t saved\n"
    found = listed("again-1")
    assert (found["state"], found["retries"], found["tasks"][0]["retries"]) == ("succeeded", 1, 0)
    assert not (here / "runs/again-1/secrets.json").exists()
    assert b"up\n" in content(here / "runs/again-1/earlier/0/worker/0/logs/user-all/current")
    assert cli("rm", "again-1", *ON).returncode == 0


@pytest.mark.parametrize("slurm", [(*PREEMPTS, GRACE)], ids=["with time to end"], indirect=True)
def test_a_job_that_is_stopped_in_its_time_to_end_is_not_started_again(
    here: Path, slurm: SlurmCluster
) -> None:
    until_stopped = f"until [ -e {here}/runs/again-1/stop ]; do sleep 0.1; done"
    saves = f'trap "" TERM; : > {here}/told; {until_stopped}; exit 5'
    commands = (f"trap '{saves}' TERM", "echo up", "while :; do sleep 0.1 || :; done")
    document = job(name="again", taskRoles={"worker": role(*commands)})
    name = detached(here, document, "--requeue")
    slurm.call("sbatch", *URGENT)
    until((here / "told").exists)
    cli("stop", name, *ON)
    until(lambda: state(name) in ("cancelled", "failed"))  # by which came first, its end or the stop
    shown = slurm.call("scontrol", "show", "job", job_id(here), "--oneliner")
    assert "PreemptTime=20" in shown
    assert "Restarts=0" in shown


def test_a_job_that_was_stopped_just_when_slurm_put_it_back_ends_at_once_when_it_starts_again(
    here: Path, slurm: SlurmCluster, document: dict[str, Any]
) -> None:
    name = detached(here, document, "--requeue")
    slurm.call("scontrol", "requeue", job_id(here))
    until(lambda: is_put_back(slurm, job_id(here)))
    (here / "runs/again-1/stop").touch()  # as the command leaves it if its scancel comes too early
    slurm.call("scontrol", "update", f"jobid={job_id(here)}", "StartTime=now")
    until(lambda: state(name) == "cancelled")
    assert "Restarts=1" in slurm.call("scontrol", "show", "job", job_id(here), "--oneliner")
    assert (here / "attempts").read_text() == "0 s3cr3t none\n"
    assert not (here / "runs/again-1/secrets.json").exists()


def test_a_job_whose_node_is_lost_waits_again_with_its_secrets_until_it_is_stopped(
    here: Path, slurm: SlurmCluster, document: dict[str, Any]
) -> None:
    """Slurm starts it again after two minutes, which is longer than a test may take."""
    name, secrets = detached(here, document, "--requeue"), here / "runs/again-1/secrets.json"
    node = listed(name)["tasks"][0]["node"]
    slurm.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    until(lambda: is_put_back(slurm, job_id(here)))
    until(lambda: listed(name)["queued"])
    slurm.call("scontrol", "update", f"nodename={node}", "state=resume")
    assert (secrets.exists(), listed(name)["tasks"][0]["state"]) == (True, "waiting")
    cli("stop", name, *ON)
    until(lambda: state(name) == "cancelled")
    assert not secrets.exists()
