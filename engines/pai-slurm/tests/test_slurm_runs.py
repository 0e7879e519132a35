"""Jobs on a real Slurm: as local runs, in one allocation, and told as what they were."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.local_server import LocalServer
from tests.slurm_cluster import NEEDS, SlurmCluster
from tests.support import PROGRAM, callback, cli, content, job, until, write_job

pytestmark = [pytest.mark.process, pytest.mark.needs(*NEEDS)]

ON = ("--on", "lab")
PREEMPTS = (
    "PreemptType=preempt/partition_prio",
    "PreemptMode=CANCEL",
    "PartitionName=urgent Nodes=ALL PriorityTier=10",
)
GRACE = "PartitionName=DEFAULT GraceTime=60"
WAITS = ("trap 'echo told; exit 5' TERM", "echo up", "while :; do sleep 0.1; done")


@pytest.fixture
def here(slurm_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a user of the profile ``lab``, whose runs are in ``runs``."""
    assert slurm_runs.parent == tmp_path
    monkeypatch.chdir(tmp_path)
    return tmp_path


def role(*commands: str, cpu: int = 1, gpu: int = 0, **more: Any) -> dict[str, Any]:
    resources = {"cpu": cpu, "memoryMB": 200, "gpu": gpu}
    own = {"dockerImage": "image", "resourcePerInstance": resources, "commands": list(commands)}
    return {"instances": 1, **own, **more}


def at_the_end(*commands: str) -> dict[str, Any]:
    """The extras of a job whose tasks run commands when they end."""
    use = {"plugin": "cmd", "parameters": {"callbacks": [callback("containerExit", *commands)]}}
    return {"com.microsoft.pai.runtimeplugin": [use]}


def run(here: Path, document: dict[str, Any], *more: str) -> "subprocess.CompletedProcess[str]":
    return cli("run", write_job(here, document), *ON, *more)


def started(path: Path, *more: str) -> "subprocess.Popen[str]":
    """A submission of a job file that goes on."""
    argv = [str(PROGRAM), "run", str(path), *ON, *more]
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def detached(here: Path, document: dict[str, Any], *more: str) -> str:
    """The name of a run whose first task, ``worker/0``, has written ``up``."""
    submitted = run(here, document, "--detach", *more)
    name = submitted.stdout.strip()
    assert name, submitted.stderr
    until(lambda: b"up\n" in content(log(here, name)))
    return name


def log(here: Path, name: str, task: str = "worker/0") -> Path:
    return here / "runs" / name / name / task / "logs/user-all/current"


def listed(name: str) -> dict[str, Any]:
    """The run as ``ps`` shows it."""
    found: dict[str, Any] = json.loads(cli("ps", name, *ON, "--json").stdout)
    return found


def state(name: str) -> str:
    return str(listed(name)["state"])


def job_id(here: Path, name: str) -> str:
    return str(json.loads((here / "runs" / name / "job.json").read_text())["id"])


def test_two_roles_run_in_one_job_with_their_own_gpus_and_know_each_other(
    here: Path, slurm: SlurmCluster
) -> None:
    said = "echo $PAI_HOST_IP_ps_0 gpus=$CUDA_VISIBLE_DEVICES step=${SLURM_STEP_ID:+yes}"
    seen = f'touch "{here}/seen-$PAI_CURRENT_TASK_ROLE_NAME-$PAI_TASK_INDEX"'
    together = f"until [ $(ls {here}/seen-* | wc -l) = 3 ]; do sleep 0.1; done"  # one that ends, ends the job
    commands = (said, seen, together)
    roles = {"ps": role(*commands), "worker": role(*commands, cpu=2, gpu=1, instances=2)}
    ended = run(here, job(name="two", taskRoles=roles))
    assert ended.returncode == 0, ended.stderr
    texts = {task: content(log(here, "two-1", task)).decode() for task in ("ps/0", "worker/0", "worker/1")}
    assert texts["ps/0"] == "127.0.0.1 gpus= step=yes\n"
    gpus = {texts[f"worker/{index}"].split("gpus=")[1][0] for index in (0, 1)}
    nodes = json.loads((here / "runs/two-1/two-1/nodes.json").read_text())
    assert gpus == {"0", "1"} or nodes["worker/0"]["node"] != nodes["worker/1"]["node"]
    leaders = slurm.call("scontrol", "show", "job", job_id(here, "two-1"), "--oneliner").splitlines()
    assert len(leaders) == len(roles)  # components of one job


def test_a_secret_reaches_the_task_and_nothing_that_others_can_see(here: Path, slurm: SlurmCluster) -> None:
    secret = "s3cr3t-of-the-job"
    command = "test '<% $secrets.key %>' = \"$(printf 's3cr3t%s' -of-the-job)\""
    document = job(name="hidden", secrets={"key": secret}, taskRoles={"worker": role(command, *WAITS)})
    name = detached(here, document)
    everything = slurm.call("scontrol", "show", "job", job_id(here, name))
    everything += slurm.call("scontrol", "write", "batch_script", job_id(here, name), "-")
    everything += slurm.call("ps", "axeww", "-o", "args")
    left = [
        path for path in (here / "runs").rglob("*") if path.is_file() and secret in path.read_text("latin-1")
    ]
    cli("stop", name, *ON)
    assert left == []
    assert "pai-runtime:" in everything
    assert secret not in everything
    assert (here / "runs" / name).stat().st_mode & 0o077 == 0
    until(lambda: state(name) == "cancelled")


def test_a_run_is_stopped_with_its_exit_callbacks(here: Path) -> None:
    document = job(name="stopped", taskRoles={"worker": role(*WAITS)}, extras=at_the_end("echo bye"))
    name = detached(here, document)
    assert (
        cli("exec", name, "worker/0", *ON, "--", "sh", "-c", "exit $((PAI_TASK_INDEX + 9))").returncode == 9
    )
    assert cli("stop", name, *ON).returncode == 0
    until(lambda: state(name) == "cancelled")
    # The shell may say first that its child was terminated.
    assert [line for line in content(log(here, name)).split(b"\n") if line in (b"up", b"told")] == [
        b"up",
        b"told",
    ]
    assert b"bye" in content(log(here, name).parents[1] / "runtime.log")
    told = json.loads(cli("report", name, *ON, "--json").stdout)["tasks"][0]["spans"]
    assert [each["kind"] for each in told if each["kind"] not in ("waiting", "note")] == [
        "command",
        "taskExits",
        "taskExits",  # of the failure analysis, which every task has
    ]
    assert cli("rm", name, *ON).returncode == 0
    assert not (here / "runs" / name).exists()


@pytest.mark.parametrize("command", [("scancel",), ("scancel", "--full", "--signal=KILL")])
def test_a_job_that_somebody_cancels_by_hand_is_told_as_that(
    here: Path, slurm: SlurmCluster, command: tuple[str, ...]
) -> None:
    """Whether its run supervisor could still tell, or not."""
    name = detached(here, job(name="by-hand", taskRoles={"worker": role(*WAITS)}))
    slurm.call(*command, job_id(here, name))
    until(lambda: state(name) in ("cancelled", "failed"))
    found = listed(name)
    if command == ("scancel",):
        assert found["tasks"][0]["state"] == "stopped"
        assert (found["state"], "cancelled on the cluster" in found["note"]) == ("cancelled", True)
    else:  # whichever Slurm kills first, the step, which its run supervisor then tells of, or that
        assert found["tasks"][0]["state"] in ("stopped", "failed")


@pytest.mark.parametrize("slurm", [PREEMPTS, (*PREEMPTS, GRACE)], indirect=True)
def test_a_job_that_is_preempted_is_told_as_that(here: Path, slurm: SlurmCluster) -> None:
    """Whether its partition gives it time to end, in which its tasks end by themselves, or not."""
    document = job(name="preempted", taskRoles={"worker": role(*WAITS)}, extras=at_the_end("echo bye"))
    follower = started(write_job(here, document), "--plain")
    name = "preempted-1"
    until(lambda: b"up\n" in content(log(here, name)))
    urgent = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")
    slurm.call("sbatch", *urgent)
    said, _ = follower.communicate()
    found = listed(name)
    assert (found["state"], "preempted" in found["note"], "preempted by" in said) == ("failed", True, True)
    assert b"bye" in content(log(here, name).parents[1] / "runtime.log")


def test_a_job_that_waits_says_why_and_is_stopped_before_it_begins(here: Path) -> None:
    big = {"worker": role("true", cpu=8, instances=2)}
    first = detached(here, job(name="first", taskRoles={"worker": role(*WAITS, cpu=8, instances=2)}))
    second = run(here, job(name="second", taskRoles=big), "--detach").stdout.strip()
    until(lambda: "waits" in listed(second)["tasks"][0].get("note", ""))
    assert listed(second)["queued"]
    cli("stop", second, *ON)
    until(lambda: state(second) == "cancelled")
    cli("stop", first, *ON)
    until(lambda: state(first) == "cancelled")


def test_what_never_can_start_is_a_problem_at_its_line(here: Path) -> None:
    resources = {"cpu": 9, "memoryMB": 9000, "gpu": 3}
    shapes = {f"r{cpu}": role("true", cpu=cpu) for cpu in (1, 2, 3)}
    big = job(name="big", taskRoles={"worker": {**role("true"), "resourcePerInstance": resources}})
    found = cli("validate", write_job(here, big), *ON)
    assert found.returncode == 1
    for field in resources:
        assert f"taskRoles.worker.resourcePerInstance.{field}: " in found.stdout + found.stderr
    many = cli("validate", write_job(here, job(name="many", taskRoles=shapes)), *ON)
    assert (many.returncode, "3 shapes" in many.stdout + many.stderr) == (1, True)
    late = run(here, job(name="late", taskRoles={"worker": role("true")}), "--time-limit", "2:00:00")
    assert late.returncode == 2
    assert not (here / "runs").exists()


def test_what_would_be_submitted_is_a_script_without_secrets(here: Path) -> None:
    document = job(
        name="shown", secrets={"key": "s3cr3t-of-the-job"}, taskRoles={"worker": role("true", gpu=1)}
    )
    shown = cli("render", write_job(here, document), *ON).stdout
    for line in ("--partition=main", "--ntasks=1", "--mem-per-cpu=200M", "--gpus-per-task=1", "--no-requeue"):
        assert f"#SBATCH {line}\n" in shown
    assert "s3cr3t" not in shown


def test_tasks_end_before_the_time_limit_with_their_exit_callbacks(here: Path) -> None:
    document = job(name="limited", taskRoles={"worker": role(*WAITS)}, extras=at_the_end("echo bye"))
    ended = run(here, document, "--timeout", "2", "--time-limit", "5")
    record = (here / "runs/limited-1/limited-1/worker/0/exit.yaml").read_text()
    assert ended.returncode not in (0, 1, 2)
    assert 'outcome: "timeout"' in record


def test_tasks_save_their_work_before_the_time_limit_and_the_record_says_which(
    here: Path, slurm: SlurmCluster
) -> None:
    """Of a limit in minutes, the operator of this Slurm can say how many seconds are left."""
    saves = ("trap 'echo saved; exit 0' USR1", "echo up", "while :; do sleep 0.1; done")
    document = job(name="saving", taskRoles={"worker": role(*saves)})
    document["extras"] = {**at_the_end("echo bye"), "onPreemption": {"signal": "SIGUSR1", "time": "2s"}}
    path = write_job(here, document)
    shorten = "scontrol update jobid=$SLURM_JOB_ID EndTime=now+16"
    (here / "own.sh").write_text(f"#!/bin/sh\n{shorten}\nexec {PROGRAM} run {path} --plain\n")
    slurm.call("sbatch", "--mem=1000", f"--chdir={here}", f"--output={here}/said", str(here / "own.sh"))
    until(
        lambda: slurm.call("squeue", "--noheader") == "" != slurm.call("squeue", "--noheader", "--states=all")
    )
    task = here / ".pai-runs/saving-1/worker/0"
    assert content(task / "logs/user-all/current") == b"up\nsaved\n"
    assert b"bye" in content(task / "logs/runtime.log")
    record = (task / "exit.yaml").read_text()
    assert 'outcome: "timeout"' in record
    assert 'preemption: {"completed": true' in record
    number = slurm.call("squeue", "--noheader", "--states=all", "--format=%i %T").split()
    assert number[1] == "FAILED"  # by its own exit code: Slurm had nothing to end
    assert f"time limit of the allocation, Slurm job {number[0]}" in record
    assert f"time limit of the allocation, Slurm job {number[0]}" in (here / "said").read_text()


def test_a_lost_node_is_told(here: Path, slurm: SlurmCluster) -> None:
    name = detached(here, job(name="lost", taskRoles={"worker": role(*WAITS)}))
    node = json.loads((here / "runs" / name / name / "nodes.json").read_text())["worker/0"]["node"]
    slurm.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    until(lambda: state(name) != "running")
    slurm.call("scontrol", "update", f"nodename={node}", "state=resume")
    assert state(name) in ("failed", "cancelled")


def _kill_controller(slurm: SlurmCluster, _job: str) -> None:
    slurm.controller.kill()
    slurm.controller.wait()


def _freeze_controller(slurm: SlurmCluster, _job: str) -> None:
    slurm.controller.send_signal(signal.SIGSTOP)


def _kill_nodes(slurm: SlurmCluster, _job: str) -> None:
    for name in ("n1", "n2"):
        slurm.kill_node(name)


def _suspend(slurm: SlurmCluster, job: str) -> None:
    slurm.call("scontrol", "suspend", job)


def _requeue(slurm: SlurmCluster, job: str) -> None:
    slurm.call("scontrol", "requeue", job)


def _as_before(slurm: SlurmCluster, job: str) -> None:
    if slurm.controller.poll() is None:
        slurm.controller.send_signal(signal.SIGCONT)
        slurm.call("scontrol", "resume", job)
    else:
        slurm.restart_controller()


@pytest.mark.parametrize("fault", [_kill_controller, _freeze_controller, _kill_nodes, _suspend, _requeue])
def test_a_run_goes_on_to_its_end_once_whatever_happens_to_slurm(
    here: Path, slurm: SlurmCluster, fault: Callable[[SlurmCluster, str], None]
) -> None:
    """And nothing of it is run twice."""
    go = here / "go"
    os.mkfifo(go)
    name = detached(
        here, job(name="goes-on", taskRoles={"worker": role("echo up", f"cat {go}", "echo done")})
    )
    number = job_id(here, name)
    fault(slurm, number)
    try:
        if fault is _suspend:
            assert "suspended" in listed(name)["tasks"][0]["note"]
        else:
            go.write_text("go\n")
            until(lambda: content(log(here, name)) == b"up\ngo\ndone\n")
    finally:
        _as_before(slurm, number)
    if fault is _suspend:
        assert not listed(name)["tasks"][0].get("note")
        go.write_text("go\n")
    until(lambda: state(name) == "succeeded")
    assert content(log(here, name)) == b"up\ngo\ndone\n"


def test_a_run_is_not_lost_where_the_lock_of_its_supervisor_is_not_seen(
    here: Path, slurm: SlurmCluster
) -> None:
    """As on a file system that keeps locks of each node to itself; whether it is lost, Slurm knows."""
    name = detached(here, job(name="unlocked", taskRoles={"worker": role(*WAITS)}))
    (here / "runs" / name / name / "run.lock").unlink()
    assert state(name) == "running"
    slurm.call("scancel", "--full", "--signal=KILL", job_id(here, name))
    until(lambda: state(name) in ("cancelled", "failed"))
    found = listed(name)
    assert (found["tasks"][0]["state"], found["ended"] is None) == ("stopped", False)


def test_an_interrupted_submission_leaves_no_job_and_no_run(
    here: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here once Slurm has the job, of which ``sbatch`` has not told yet."""
    real = shutil.which("sbatch")
    (here / "bin").mkdir()
    slow = here / "bin/sbatch"
    slow.write_text(
        f'#!/bin/sh\n[ "$1" = --test-only ] && exec {real} "$@"\n'
        f"{real} --hold >&2 && touch {here}/submitted && exec sleep 60\n"
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}/bin:{os.environ['PATH']}")
    submission = started(write_job(here, job(name="interrupted", taskRoles={"worker": role("true")})))
    until((here / "submitted").exists)
    submission.send_signal(signal.SIGINT)
    submission.communicate()
    assert submission.returncode == 130
    assert slurm.call("squeue", "--noheader", "--states=all", "--format=%j %T") == "interrupted-1 CANCELLED\n"
    assert list((here / "runs").iterdir()) == []


def test_two_submissions_of_one_name_at_once_are_two_runs(here: Path) -> None:
    path = write_job(here, job(name="same", taskRoles={"worker": role("true")}))
    both = [started(path, "--detach") for _ in range(2)]
    for each in both:
        each.communicate()
    assert [each.returncode for each in both] == [0, 0]
    until(lambda: {state("same-1"), state("same-2")} == {"succeeded"})
    assert job_id(here, "same-1") != job_id(here, "same-2")


def test_in_an_allocation_of_ones_own_no_profile_is_needed(here: Path, slurm: SlurmCluster) -> None:
    said = "echo $SLURMD_NODENAME $SLURM_STEP_ID $PAI_HOST_IP_worker_1"
    path = write_job(here, job(name="own", taskRoles={"worker": role(said, instances=2)}))
    script = f"#!/bin/sh\ncd {here}\nexec {PROGRAM} run {path} --plain\n"
    (here / "own.sh").write_text(script)
    argv = [
        "sbatch",
        "--wait",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--mem=1000",
        f"--output={here}/said",
        "own.sh",
    ]
    code = subprocess.run(argv, cwd=here, capture_output=True, check=False).returncode
    assert code == 0, content(here / "said").decode()
    logs = [content(here / f".pai-runs/own-1/worker/{index}/logs/user-all/current") for index in (0, 1)]
    assert {line.split()[0] for line in logs} == {b"n1", b"n2"}
    assert all(line.endswith(b" 127.0.0.1\n") for line in logs)
    assert slurm.call("squeue", "--noheader") == ""


@pytest.fixture(autouse=True)
def _nothing_is_left(here: Path, slurm: SlurmCluster) -> Iterator[None]:
    yield
    slurm.call("scancel", f"--user={os.environ.get('USER') or 'root'}")
    assert here.exists()
    # Of what ended while the controller was frozen, it asks the nodes again only after some 50 seconds.
    until(lambda: slurm.call("squeue", "--noheader", "--states=PENDING,RUNNING,SUSPENDED") == "")


@pytest.mark.parametrize("more", [{}, {"gangAllocation": False}], ids=["one allocation", "an array"])
def test_a_run_of_which_all_tasks_fail_is_told_once(
    here: Path, slurm: SlurmCluster, more: dict[str, Any]
) -> None:
    received: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with LocalServer(Hook) as server:
        use = {"plugin": "notify", "parameters": {"webhook": {"url": "<% $secrets.hook %>"}}}
        extras = {**more, "com.microsoft.pai.runtimeplugin": [use]}
        worker = role("exit 7", instances=4)
        ended = run(here, job(taskRoles={"worker": worker}, extras=extras, secrets={"hook": server.url}))
        until(lambda: not slurm.call("squeue", "--noheader"))  # the last of an array tells after it decided
    assert (ended.returncode, [json.loads(each)["exitCode"] for each in received]) == (7, [7])
