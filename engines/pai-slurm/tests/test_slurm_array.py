"""Jobs whose tasks need not start together: an array of a real Slurm, each of it when there is room."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_cluster import NEEDS, SlurmCluster
from tests.slurm_fixtures import write_profile
from tests.slurm_user import ON, listed, role, run, state
from tests.support import cli, content, job, until, write_job

pytestmark = [pytest.mark.process, pytest.mark.needs(*NEEDS)]

ALONE = {"gangAllocation": False}


@pytest.fixture
def here(slurm_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert slurm_runs.parent == tmp_path
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_element(here: Path, name: str, number: int, task: str) -> bytes:
    """The log of the task of an element."""
    folder = here / "runs" / name / "array" / str(number)
    return content(folder / name / task / "logs/user-all/current")


def array_job(*commands: str, instances: int = 3, cpu: int = 1, **more: Any) -> dict[str, Any]:
    worker = role(*commands, cpu=cpu, instances=instances, **more)
    return job(name="sweep", taskRoles={"worker": worker}, extras=ALONE)


def test_more_tasks_than_there_is_room_for_run_each_with_its_own_log_secrets_and_retries(
    here: Path, slurm: SlurmCluster
) -> None:
    """Three of eight CPUs run on two nodes, and a third waits for one of them."""
    fails_once = f"mkdir {here}/tried-$PAI_TASK_INDEX 2>/dev/null || exit 0"
    ports = "$(env | grep -c ^PAI_PORT_LIST_worker)"  # ssh and http of this one
    commands = (f"echo $PAI_TASK_INDEX <% $secrets.key %> $SLURM_STEP_ID {ports}", fails_once, "exit 7")
    document = array_job(*commands, cpu=8, taskRetryCount=1)
    ended = run(here, {**document, "secrets": {"key": "s3cr3t"}})
    assert ended.returncode == 0, ended.stderr
    for number in range(3):
        assert of_element(here, "sweep-1", number, f"worker/{number}") == f"{number} ****** 1 2\n".encode()
    found = listed("sweep-1")
    assert [task["retries"] for task in found["tasks"]] == [1, 1, 1]
    assert {task["node"] for task in found["tasks"]} <= {"n1", "n2"}
    assert not (here / "runs/sweep-1/secrets.json").exists()
    assert cli("logs", "sweep-1", "worker/1", *ON).stdout.startswith("1 ")
    number = json.loads((here / "runs/sweep-1/job.json").read_text())["id"]
    assert f"{number}_2" in slurm.call("squeue", "--noheader", "--states=all", "--format=%i")


def test_the_first_failure_ends_an_array_as_any_job_and_those_that_wait_never_begin(here: Path) -> None:
    commands = ("[ $PAI_TASK_INDEX != 0 ] || exit 9", "trap 'exit 5' TERM", "while :; do sleep 0.1; done")
    ended = run(here, array_job(*commands, instances=6, cpu=4))
    found = listed("sweep-1")
    assert (ended.returncode, found["state"], found["failedTask"]) == (9, "failed", "worker/0")
    assert found["tasks"][5]["state"] == "stopped"


def test_what_has_decided_an_array_is_told_though_another_element_was_killed(
    here: Path, slurm: SlurmCluster
) -> None:
    until_told = f"while [ $PAI_TASK_INDEX = 1 ] || [ ! -e {here}/go ]; do sleep 0.1; done"
    name = run(here, array_job("echo up", until_told, "exit 9", instances=2), "--detach").stdout.strip()
    until(lambda: all(of_element(here, name, each, f"worker/{each}") == b"up\n" for each in range(2)))
    array = json.loads((here / "runs" / name / "job.json").read_text())["id"]
    slurm.call("scancel", "--batch", "--signal=KILL", f"{array}_1")
    (here / "go").touch()
    until(lambda: state(name) == "failed")
    found = listed(name)
    assert (found["failedTask"], found["tasks"][1]["state"]) == ("worker/0", "stopped")


def test_an_array_is_entered_and_stopped_whether_its_tasks_run_or_wait(here: Path) -> None:
    submitted = run(here, array_job("echo up", "while :; do sleep 0.1; done", instances=4, cpu=8), "--detach")
    name = submitted.stdout.strip()
    until(lambda: of_element(here, name, 0, "worker/0") == b"up\n")
    until(lambda: "waits" in listed(name)["tasks"][3].get("note", ""))
    entered = cli("exec", name, "worker/0", *ON, "--", "sh", "-c", "echo $PAI_TASK_INDEX")
    assert (entered.returncode, entered.stdout) == (0, "0\n")
    cli("stop", name, *ON)
    until(lambda: state(name) == "cancelled")
    assert cli("rm", name, *ON).returncode == 0


def test_an_array_that_is_to_be_started_again_is_refused(here: Path) -> None:
    write_profile(here / "config", runs=str(here / "runs"), partition="main", requeue=True)
    said = cli("validate", write_job(here, array_job("true")), *ON, "--json").stdout
    found = [(each["code"], each["field"]) for each in json.loads(said)["problems"]]
    assert found == [("array-requeue", "extras.gangAllocation")]


def test_only_what_can_be_an_array_is_one(here: Path) -> None:
    shown = {
        name: "#SBATCH --array=0-2\n" in cli("render", write_job(here, document), *ON).stdout
        for name, document in {
            "array": array_job("true"),
            "gang": job(name="sweep", taskRoles={"worker": role("true", instances=3)}),
            "retried as a whole": {**array_job("true"), "jobRetryCount": 1},
            "shapes": job(
                name="sweep", extras=ALONE, taskRoles={"a": role("true"), "b": role("true", cpu=2)}
            ),
        }.items()
    }
    assert shown == {"array": True, "gang": False, "retried as a whole": False, "shapes": False}
