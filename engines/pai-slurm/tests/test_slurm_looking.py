"""People look into a run on a real Slurm, enter its tasks and clean up, as with local runs."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from pai_runtime.engine import Run
from pai_runtime.engines.profiles import find_profile
from pai_slurm import cluster
from tests.slurm_cluster import NEEDS, SlurmCluster
from tests.slurm_fixtures import write_profile
from tests.slurm_user import ON, detached, listed, log, role, run, state
from tests.support import PROGRAM, cli, content, job, until
from tests.typed_terminal import Terminal

pytestmark = [pytest.mark.process, pytest.mark.needs(*NEEDS)]

BOARD = """#!/bin/sh
for each; do case $each in --port=*) port=${each#*=} ;; esac; done
exec /usr/bin/python3 -m http.server --bind 127.0.0.1 "$port"
"""
"""A stand-in for TensorBoard, which takes seconds to start."""
RANKS = """import os, threading
def read_shard():
    os.mkfifo("shard")
    os.read(os.open("shard", os.O_RDWR), 1)
def barrier():
    threading.Event().wait()
read_shard() if os.environ["PAI_TASK_INDEX"] == "2" else barrier()
"""
"""A program of which one task never comes to where the others wait for it."""


@pytest.fixture
def here(slurm_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert slurm_runs.parent == tmp_path
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_told_as_running_once_it_does_though_slurm_was_last_asked_when_it_waited(
    here: Path, slurm: SlurmCluster
) -> None:
    write_profile(here / "config", runs=str(here / "runs"), sbatch={"hold": True})
    until_told = f"until [ -e {here}/go ]; do sleep 0.1; done"
    document = job(name="seen", taskRoles={"worker": role("echo up", until_told)})
    name = run(here, document, "--detach").stdout.strip()
    reader = cluster.SlurmCluster(find_profile("lab")).open_run(name)
    waiting = reader.run()
    assert isinstance(waiting, Run)
    assert waiting.queued
    slurm.call("scontrol", "release", json.loads((here / "runs" / name / "job.json").read_text())["id"])
    until(lambda: content(log(here, name)) == b"up\n")
    running = reader.run()
    assert isinstance(running, Run)
    assert (running.queued, [task.state for task in running.tasks]) == (False, ["running"])
    (here / "go").touch()
    until(lambda: state(name) == "succeeded")


def test_one_looks_into_a_task_enters_it_copies_from_it_and_removes_the_run(here: Path) -> None:
    go = here / "go"
    commands = (
        "echo 42 > result",
        "echo up",
        f"until [ -e {go} ]; do sleep 0.1; done",
        "echo last",
        "exit 3",
    )
    name = detached(here, job(name="seen", taskRoles={"worker": role(*commands)}))
    argv = [str(PROGRAM), "logs", name, "worker/0", *ON, "--follow"]
    follower = subprocess.Popen(argv, text=True, stdout=subprocess.PIPE)

    shell = Terminal(PROGRAM, "exec", name, "worker/0", *ON, "--", "sh")
    shell.type("tty; echo $SLURM_JOB_ID-$((6 * 7))-$PAI_TASK_INDEX; cat result\n")
    shell.wait_for("/dev/pts/")
    shell.wait_for(r"\d+-42-0")
    shell.wait_for("42")
    shell.type("exit 4\n")
    assert shell.end() == 4

    copied = cli("cp", name, "worker/0:result", here / "copy", *ON)
    assert (copied.returncode, (here / "copy").read_text()) == (0, "42\n"), copied.stderr
    assert cli("prune", "--older-than", "0s", *ON).returncode == 0
    assert listed(name)["state"] == "running"

    go.touch()
    said, _ = follower.communicate(timeout=100)
    assert said.endswith("up\nlast\n")
    analyzed = cli("analyze", name, *ON)
    assert "worker/0" in analyzed.stdout, analyzed.stderr
    assert cli("prune", "--older-than", "0s", *ON).returncode == 0
    assert list((here / "runs").iterdir()) == []


def test_the_task_that_is_not_where_the_others_are_is_named_by_its_stack(here: Path) -> None:
    program = here / "ranks.py"
    program.write_text(RANKS)
    commands = ("echo up", f"exec {shlex.quote(sys.executable)} {program}")
    name = detached(here, job(name="ranks", taskRoles={"worker": role(*commands, instances=3)}))

    def told() -> list[str]:
        lines = cli("stacks", name, *ON).stdout.splitlines()
        return lines if any("worker/2 is not where the others are" in line for line in lines) else []

    first, *_, odd = until(told)
    assert first == "2 tasks (worker/0, worker/1) are in wait (ranks.py:6)"
    assert odd.endswith("/shard in read_shard (ranks.py:4)")
    whole = cli("stacks", name, "worker/2", *ON)
    assert "    read_shard (" in whole.stdout, whole.stderr
    assert cli("stop", name, *ON).returncode == 0
    until(lambda: listed(name)["state"] == "cancelled")
    assert cli("stacks", name, *ON).returncode == 2


def test_a_service_of_a_task_is_opened_at_the_address_of_its_node(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tensorboard", "python", "python3"):
        (here / "bin").mkdir(exist_ok=True)
        (here / "bin" / name).write_text(BOARD if name == "tensorboard" else "#!/bin/sh\nexit 1\n")
        (here / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}/bin:/usr/bin:/bin")
    use = {"plugin": "tensorboard", "parameters": {"logdir": "."}}
    extras = {"com.microsoft.pai.runtimeplugin": [use]}
    commands = ("echo up", "while :; do sleep 0.1; done")
    name = detached(here, job(name="served", taskRoles={"worker": role(*commands)}, extras=extras))
    until(lambda: cli("open", name, "--print", *ON).returncode == 0)
    url = cli("open", name, "--print", *ON).stdout.strip()
    with urlopen(url, timeout=60) as answer:  # noqa: S310 - the port of a task here
        assert answer.status == 200
    cli("stop", name, *ON)
    until(lambda: listed(name)["state"] == "cancelled")
