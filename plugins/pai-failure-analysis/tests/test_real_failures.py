"""Programs that really fail, in jobs that the real command runs: what the record and the terminal say of why.

Nothing here prints a text that pretends. One job has a task role for each failure of ``real_failures.yaml``.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.memory_cgroup import memory_cgroup
from tests.support import PROGRAM, callback, job, made_once, write_job

PLUGINS = "com.microsoft.pai.runtimeplugin"

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

needs_root = pytest.mark.needs("root", "mounts")
needs_mpi = pytest.mark.needs("openmpi-bin")
needs_sshd = pytest.mark.needs("openssh-server")

WAYS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("real_failures.yaml").read_bytes())


def python(program: str) -> str:
    """A command that writes a program to a file."""
    return f"cat > train.py <<'END'\n{dedent(program).strip()}\nEND"


RUN = "python3 train.py"


def pai_runtime(*args: str | Path, cwd: Path, wrap: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The real command, with all the time that it takes."""
    return subprocess.run(
        [*wrap, PROGRAM, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", "no_proxy": "*"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def record(run: Path, task: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((run / task / "exit.yaml").read_text())
    return read


def told(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """What the end of a run says of a failure."""
    lines = [line.removeprefix("pai-runtime: ") for line in ended.stderr.splitlines()]
    (start,) = (number for number, line in enumerate(lines) if line.startswith("the job "))
    measured = "  the run took ", "  peak of memory, "
    return [line.strip() for line in lines[start:] if not line.startswith(measured)]


def every_way(folder: Path) -> dict[str, Any]:
    """The job with a task role for each way to fail."""
    own = {
        "containerExitCode": 77,
        "phrase": "NoLicence",
        "behavior": "TRANSIENT",
        "reason": "The simulator has found no licence.",
        "solution": ["Try again at night."],
        "patterns": [{"exitCode": 3, "userLogRegex": "no licence at [0-9]+"}],
    }
    rules = {"plugin": "failure_analysis", "taskroles": ["own_rule"], "parameters": {"before": [own]}}
    document = job(
        prerequisites=[
            {
                "name": "fails",
                "type": "script",
                "callbacks": [callback("taskStarts", "test -e /no/such/data")],
            },
            {"name": "code", "type": "script", "plugin": "git", "repo_uri": f"file://{folder}/no-such.git"},
        ],
        extras={PLUGINS: [rules]},
    )
    worker = document["taskRoles"].pop("worker")
    completion = {"minFailedInstances": -1, "minSucceededInstances": -1}
    for way in WAYS:
        program = [python(way["python"])] if "python" in way else []
        document["taskRoles"][way["name"]] = {
            **worker,
            "commands": [*program, way.get("commands", RUN)],
            "completion": completion,
            "prerequisites": [way["prerequisite"]] if "prerequisite" in way else [],
        }
    return document


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the job's run."""

    def make(folder: Path) -> None:
        file = write_job(folder, every_way(folder))
        ended = pai_runtime("run", "--isolation", "none", "--out", folder / "run", file, cwd=folder)
        assert ended.returncode == 0, ended.stderr

    return made_once(tmp_path_factory, "real-failures", make) / "run"


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=way["name"], marks=pytest.mark.needs(*way.get("needs", ()))) for way in WAYS],
)
def test_a_real_failure_is_explained_in_the_record(way: dict[str, Any], ran: Path) -> None:
    found = record(ran, f"{way['name']}/0")
    assert {key: found.get(key) for key in way["record"]} == way["record"], found["errorLogs"]
    assert found["becauseOfPeer"] is False
    assert ("said" in way) == ("matchedUserLogString" in found)
    assert way.get("said", "") in found.get("matchedUserLogString", "")
    assert len(found["reason"]) > 20
    assert found["solution"]
    assert f"rule {found['phrase']} " in found["trigger"]


def run_one(
    folder: Path, *commands: str, wrap: Sequence[str] = (), options: Sequence[str] = (), **fields: Any
) -> subprocess.CompletedProcess[str]:
    """The end of a job of its own, in the folder ``run``."""
    worker = {"commands": list(commands), **fields.pop("worker", {})}
    file = write_job(folder, job(worker=worker, **fields))
    return pai_runtime("run", "--isolation", "none", "--out", "run", *options, file, cwd=folder, wrap=wrap)


def test_the_end_of_a_run_tells_a_newcomer_what_to_do(tmp_path: Path) -> None:
    ended = run_one(tmp_path, python("import torchvision_of_mine"), RUN)
    assert ended.returncode == 232
    assert told(ended) == [
        "the job failed: task worker/0, exit code 232, ModuleNotFound",
        "the command ended with exit code 1",
        "why: The program needs a Python module that its Python does not have.",
        "it said: ModuleNotFoundError: No module named 'torchvision_of_mine'",
        "what to do:",
        *(f"- {text}" for text in record(tmp_path / "run", "worker/0")["solution"]),
        "its log: pai-runtime logs run worker/0",
    ]


@pytest.mark.needs("memory cgroup")
def test_a_task_that_the_kernel_kills_for_its_memory_is_out_of_memory(tmp_path: Path) -> None:
    with memory_cgroup(256 * 1024**2) as cgroup:
        ended = run_one(
            tmp_path,
            python("samples = []\nwhile True:\n    samples.append(bytearray(1 << 20))"),
            RUN,
            wrap=["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs && exec "$@"', "sh"],
        )
    found = record(tmp_path / "run", "worker/0")
    assert (ended.returncode, found["exitCode"], found["phrase"]) == (236, 236, "HostOutOfMemory")
    assert (found["originUserExitCode"], found["behavior"]) == (137, "PERMANENT")
    assert "oomKilled True" in found["trigger"]
    first, said, why, _, advice, *_ = told(ended)
    assert first == "the job failed: task worker/0, exit code 236, HostOutOfMemory"
    assert said == "the command ended with exit code 137"
    assert why.startswith(
        "why: The kernel killed a process of the task because the task used more main memory"
    )
    assert "memoryMB" in advice


def test_a_task_that_is_not_done_in_time_has_reached_the_time_limit(tmp_path: Path) -> None:
    ended = run_one(tmp_path, "exec sleep 1000", options=["--timeout", "3s"])
    found = record(tmp_path / "run", "worker/0")
    assert (ended.returncode, found["exitCode"], found["phrase"]) == (242, 242, "TimeLimitReached")
    assert (found["outcome"], found["originUserExitCode"]) == ("timeout", 143)
    assert told(ended)[:5] == [
        "the job failed: task worker/0, exit code 242, TimeLimitReached",
        "the task timed out in command",
        f"why: {found['reason']}",
        "what to do:",
        "- Raise the time limit, or make the work smaller",
    ]


@needs_sshd
@pytest.mark.needs("openssh-client")
def test_an_ssh_barrier_that_times_out_names_who_did_not_come(tmp_path: Path) -> None:
    ssh = {"plugin": "ssh", "parameters": {"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": 0.03}}
    late = {"name": "late", "type": "script", "callbacks": [callback("taskStarts", "sleep 1000")]}
    document = job(prerequisites=[late], extras={PLUGINS: [ssh]})
    document["taskRoles"]["late"] = {**document["taskRoles"]["worker"], "prerequisites": ["late"]}
    file = write_job(tmp_path, document)
    ended = pai_runtime("run", "--isolation", "none", "--out", "run", file, cwd=tmp_path)
    found = record(tmp_path / "run", "worker/0")
    assert (ended.returncode, found["exitCode"], found["phrase"]) == (249, 249, "SshBarrierTimeout")
    assert (found["outcome"], found["originUserExitCode"], found["behavior"]) == (
        "setup-failed",
        None,
        "TRANSIENT",
    )
    # Also from worker-0 itself, where the machine was busy for so long.
    assert "late-0" in found["matchedPlatformLogString"].partition("no answer by ssh")[2]
    lines = told(ended)
    assert lines[0] == "the job failed: task worker/0, exit code 249, SshBarrierTimeout"
    (said,) = (line for line in lines if line.startswith("it said: "))
    assert "no answer by ssh within 1.8 s" in said
    assert "- Check how the named tasks went; one that failed or never started is the cause" in lines


@needs_root
@pytest.mark.parametrize(
    ("quiet", "phrase", "behavior"),
    [("", "NoSpaceLeft", "PERMANENT"), (" 2>/dev/null", "DiskFull", "UNKNOWN")],
    ids=["which is told", "which is not told"],
)
def test_on_a_full_disk_there_is_still_room_for_the_record(
    tmp_path: Path, quiet: str, phrase: str, behavior: str
) -> None:
    (tmp_path / "run").mkdir()
    # The disk goes with the process that has mounted it.
    script = 'mount -t tmpfs -o size=1m tmpfs run && "$@"; code=$?; cp run/worker/0/exit.yaml .; exit $code'
    wrap = ["unshare", "-m", "sh", "-c", script, "sh"]
    ended = run_one(tmp_path, f"cat /dev/zero > checkpoint{quiet}", wrap=wrap)
    found = yaml.safe_load((tmp_path / "exit.yaml").read_text())
    assert (ended.returncode, found["exitCode"], found["originUserExitCode"]) == (238, 238, 1)
    assert (found["phrase"], found["behavior"]) == (phrase, behavior)
    lines = told(ended)
    assert lines[0] == f"the job failed: task worker/0, exit code 238, {phrase}"
    assert f"why: {found['reason']}" in lines
    assert "disk" in found["reason"]
    assert "Traceback" not in ended.stderr


KILLED = """
    import os, pathlib, signal, socket, time
    address = ("127.0.0.1", int(os.environ["PAI_worker_0_http_PORT"]))
    if os.environ["PAI_TASK_INDEX"] == "0":
        peer = socket.create_server(address).accept()[0]
        peer.recv(1, socket.MSG_PEEK)
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    peer.sendall(b"gradients")
    try:
        peer.recv(1)
    except ConnectionResetError:
        while not pathlib.Path("../../0/exit.yaml").exists():
            time.sleep(0.05)
        raise
"""
"""The first task is killed while the second one waits for its answer."""


def test_of_tasks_that_fell_one_after_the_other_the_first_is_named(tmp_path: Path) -> None:
    worker = {"instances": 2, "completion": {"minFailedInstances": 2}}
    ended = run_one(tmp_path, python(KILLED), RUN, worker=worker)
    lines = told(ended)
    assert ended.returncode == 137
    assert lines[0] == "the job failed: task worker/0, exit code 137, KilledFromOutside"
    assert lines[-2:] == ["of 2 tasks: 2 failed", "also failed: worker/1 (exit code 239)"]
    fell = record(tmp_path / "run", "worker/1")
    assert (fell["phrase"], fell["behavior"]) == ("ConnectionLost", "TRANSIENT")
    assert "If it was to another task of the job, look how that one went" in fell["solution"][0]


RANKS = """
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    agent='TMPDIR=$(mktemp -d) orted'
    [ "$PAI_TASK_INDEX" = 1 ] || TMPDIR=$(mktemp -d) exec mpirun --mca orte_launch_agent "$agent" \\
        --host worker-0,worker-1 -n 2 sh -c '
            test $OMPI_COMM_WORLD_RANK = 0 || echo $PPID > daemon; exec sleep 1000'
    until [ -s ../../0/work/daemon ]; do [ ! -e ../../0/exit.yaml ]; sleep 0.05; done
    kill -KILL $(cat ../../0/work/daemon) $$
"""
"""The second task is killed with the daemon by which mpirun, in the first one, runs a rank there.

On one machine they would make the same directory, also those of other tests, and sometimes fail as another
has just made it.
"""


@needs_mpi
@needs_sshd
def test_a_task_that_fell_because_of_another_is_told_from_it(tmp_path: Path) -> None:
    ssh = {"plugin": "ssh", "parameters": {"jobssh": True, "sshbarrier": True}}
    worker = {"instances": 2, "completion": {"minFailedInstances": 2}}
    ended = run_one(tmp_path, dedent(RANKS), worker=worker, extras={PLUGINS: [ssh]})
    lines = told(ended)
    assert ended.returncode == 137
    assert lines[0] == "the job failed: task worker/1, exit code 137, KilledFromOutside"
    assert lines[-1] == "failed because worker/1 failed: worker/0 (exit code 237)"
    fell = record(tmp_path / "run", "worker/0")
    assert (fell["phrase"], fell["behavior"], fell["becauseOfPeer"]) == ("PeerGoneMpi", "TRANSIENT", True)
    assert "lost communication with a remote daemon" in fell["matchedUserLogString"]
