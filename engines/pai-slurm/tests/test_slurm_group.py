"""Tasks that are alike and share a step of their node, on a real Slurm."""

import os
import signal
from pathlib import Path

import pytest

from tests.slurm_cluster import NEEDS
from tests.slurm_user import ON, detached, listed, log, role, run
from tests.support import cli, content, exit_record, job, until

pytestmark = [pytest.mark.process, pytest.mark.needs(*NEEDS)]

TASKS = 8
WAITS = ("trap 'echo told; exit 5' TERM", "echo up", "while :; do sleep 0.1; done")


def test_tasks_that_share_a_step_are_retried_alone_and_have_their_own_codes_and_secrets(
    slurm_runs: Path, tmp_path: Path
) -> None:
    commands = (
        "echo $SLURM_STEP_ID $SLURM_CPUS_PER_TASK $PAI_TASK_INDEX",
        "test '<% $secrets.key %>' = \"$(printf 's3cr3t%s' -of-the-job)\"",
        f"first() {{ test $PAI_TASK_INDEX = $1 && mkdir {tmp_path}/$1 2>/dev/null; }}",
        "if first 3; then exit 7; fi",
        "if first 5; then kill -KILL $PPID; sleep 100; fi",
    )
    completion = {"minSucceededInstances": TASKS}
    document = job(
        name="alike",
        secrets={"key": "s3cr3t-of-the-job"},
        jobRetryCount=0,
        taskRoles={"worker": role(*commands, instances=TASKS, taskRetryCount=1, completion=completion)},
        extras={"gangAllocation": False},
    )
    document["taskRoles"]["other"] = role("sleep 1000", cpu=2)  # else it is an array
    ended = run(tmp_path, document)
    assert ended.returncode == 0, ended.stderr
    said = {tuple(content(log(tmp_path, "alike-1", f"worker/{index}")).split()) for index in range(TASKS)}
    assert len({step for step, *_ in said}) == 1
    assert {tuple(map(int, rest)) for _, *rest in said} == {(1, index) for index in range(TASKS)}
    earlier = {index: slurm_runs / f"alike-1/alike-1/worker/{index}/attempts/0" for index in range(TASKS)}
    codes = {index: exit_record(task)["exitCode"] for index, task in earlier.items() if task.exists()}
    assert codes == {3: 7, 5: 137}


@pytest.mark.usefixtures("slurm_runs")
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_tasks_that_share_a_step_end_with_it_and_when_they_are_told(tmp_path: Path, how: str) -> None:
    commands = (f"test $PAI_TASK_INDEX != 0 || echo $PPID >{tmp_path}/supervisor", *WAITS)
    name = detached(tmp_path, job(name=how, taskRoles={"worker": role(*commands, instances=TASKS)}))
    if how == "stopped":
        cli("stop", name, *ON)
    else:
        supervisor = int((tmp_path / "supervisor").read_text())
        step = int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(step, signal.SIGKILL)
    until(lambda: listed(name)["state"] != "running")
    tasks = listed(name)["tasks"]
    if how == "stopped":
        assert {task["state"] for task in tasks} == {"stopped"}
        assert b"told\n" in content(log(tmp_path, name, "worker/7"))
    else:
        assert listed(name)["state"] == "failed"
        assert all(task["exitCode"] for task in tasks)
