"""Runs on Kubernetes the whole way: from the real command to pods that run, and back to its exit status.

The API server is a stand-in, and what JobSet and Job decide is that of their model; the command, the objects,
and all that happens in the pods are real.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.api import paths
from pai_task.exit_codes import TIMEOUT
from tests.containers.controllers import CPU, NODE, Controllers, played_controllers
from tests.containers.names import NAMESPACE
from tests.containers.pod import PATH
from tests.containers.this_machine import runtime_image
from tests.containers.volumes import Image
from tests.kubernetes.api_server import ApiServer
from tests.small_cluster import write_profiles
from tests.support import PROGRAM, ROOT, callback, cli, job, until, write_job
from tests.test_documentation import blocks
from tests.typed_terminal import Terminal

pytestmark = [pytest.mark.process, pytest.mark.needs("iproute2", "dnsmasq-base")]

SECRET = "w0rld-s3cret"


class Lab:
    """A cluster that is the profile ``lab``, and real commands."""

    def __init__(self, server: ApiServer, played: Controllers, folder: Path, closing: ExitStack) -> None:
        self.server, self.played, self.folder = server, played, folder
        self._closing = closing
        self.printed: list[str] = []
        self.profile: Mapping[str, Any] = {}

    def start(self, *args: str | Path) -> subprocess.Popen[str]:
        """A command that goes on, and is killed at the end, or with this process."""
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", PROGRAM, *map(str, args)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._closing.enter_context(process)
        self._closing.callback(process.kill)
        return process

    def end(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        """What a command has printed until its end."""
        stdout, stderr = process.communicate(timeout=90)
        self.printed += [stdout, stderr]
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def run(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        """A command from its start to its end."""
        ended = cli(*args, cwd=self.folder)
        self.printed += [ended.stdout, ended.stderr]
        return ended

    def json(self, *args: str) -> Any:
        """What a command prints as JSON."""
        ended = self.run(*args, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def names(self) -> list[str]:
        """Those of the runs."""
        return [each["metadata"]["name"] for each in self.server.list(paths.jobsets(NAMESPACE))]

    def said(self, run: str, task: str, text: str) -> bool:
        """Whether a task of a run has written this."""
        names = [each["metadata"]["name"] for each in self.pods(run)]
        own = [name for name in names if name.startswith(f"{run}-{task}-")]
        logs = (self.server.find_log((NAMESPACE, name, "app", False)) for name in own)
        return any(text.encode() in line for log in logs if log for _, line in list(log.pieces))

    def pods(self, run: str) -> list[Mapping[str, Any]]:
        return [
            each
            for each in self.server.list(paths.pods(NAMESPACE))
            if each["metadata"]["name"].startswith(f"{run}-")
        ]


@pytest.fixture
def lab(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    runtime = runtime_image(bundle, tmp_path / "places")
    environment = {"PATH": f"{PROGRAM.parent}:{PATH}"}
    images = {
        "registry.example/pai:1": runtime,
        "python:3.12": Image(runtime.root, environment=environment, mounts=runtime.mounts),
        "example/image": Image(image("busybox"), environment={"PATH": PATH}),
    }
    with ExitStack() as closing:
        server = closing.enter_context(ApiServer(namespace=NAMESPACE, tokens=["a-token"]))
        played = closing.enter_context(played_controllers(server, tmp_path / "cluster", images))
        server.program = played.program
        profile = {
            "engine": "kubernetes",
            "kubeconfig": str(server.kubeconfig(tmp_path)),
            "runtimeImage": "registry.example/pai:1",
        }
        write_profiles(tmp_path / "config", f"  lab: {json.dumps(profile)}\n")
        for name, value in {"XDG_CONFIG_HOME": str(tmp_path / "config"), "LOGNAME": "ada"}.items():
            monkeypatch.setenv(name, value)
        made = Lab(server, played, tmp_path, closing)
        made.profile = profile
        yield made


def check_no_secret(lab: Lab, secret: str) -> None:
    """It is in no object but Secrets, in no log, and in nothing that was printed."""
    with lab.server.lock:
        changes = list(lab.server.objects.changes)
        logs = [piece for log in lab.server._logs.values() for _, piece in log.pieces]
    for change in changes:
        if change.target.resource != "secrets":
            assert secret not in json.dumps(change.after), change.target
    assert all(secret not in text for text in lab.printed)
    assert all(secret.encode() not in piece for piece in logs)


FIRST_FAILS = 'echo "attempt $FC_TASK_ATTEMPT_ID of $FC_FRAMEWORK_ATTEMPT_ID"; test "${}" != 0'
JOBS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "fails": (
        3,
        job(
            worker={"instances": 2, "commands": ['[ "$PAI_TASK_INDEX" = 0 ] || exit 3', "exec sleep 600"]},
            secrets={"who": SECRET},
        ),
    ),
    "task-retried": (
        0,
        job(
            worker={
                "taskRetryCount": 2,
                "commands": [
                    FIRST_FAILS.replace("{}", "FC_TASK_ATTEMPT_ID"),
                    "echo the secret is <% $secrets.who %>",
                ],
            },
            secrets={"who": SECRET},
            extras={"gangAllocation": False},
        ),
    ),
    "job-retried": (
        0,
        job(
            worker={"commands": [FIRST_FAILS.replace("{}", "FC_FRAMEWORK_ATTEMPT_ID")]},
            jobRetryCount=2,
        ),
    ),
    "out-of-memory": (
        226,
        job(
            worker={"commands": ["echo 'RuntimeError: CUDA out of memory.'; exit 1"]},
            jobRetryCount=3,
        ),
    ),
    "timed-out": (
        TIMEOUT,
        job(
            worker={"commands": ["echo begun", "exec sleep 600"]},
            extras={
                "timeout": "3s",
                "com.microsoft.pai.runtimeplugin": [
                    {
                        "plugin": "cmd",
                        "parameters": {"callbacks": [callback("taskExits", "echo it $PAI_TASK_OUTCOME")]},
                    }
                ],
            },
        ),
    ),
    "first-wins": (
        0,
        job(
            worker={
                "instances": 3,
                "completion": {"minSucceededInstances": 1},
                "commands": ['[ "$PAI_TASK_INDEX" = 1 ] || exec sleep 600', "echo won"],
            },
        ),
    ),
}


def output(text: str) -> list[str]:
    """What tasks have written, but for what depends on their addresses and the time."""
    return sorted(line for line in text.splitlines() if '"POST /' not in line)


def summary(text: str) -> list[str]:
    """The result of a run, but for what depends on the time and the place."""
    lines = [
        line
        for line in text.splitlines()
        if re.match("pai-runtime: (  |the job (succeeded|failed|was))", line)
    ]
    return [re.sub(" in .*", "", line) for line in lines if not re.search("its log:|the run took", line)]


def test_jobs_end_as_locally(lab: Lab) -> None:
    files = {"demo": (0, ROOT / "examples" / "demo.yaml")}
    for name, (status, document) in JOBS.items():
        (lab.folder / name).mkdir()
        files[name] = (status, write_job(lab.folder / name, {**document, "name": name}))
    started = {
        name: (
            lab.start("run", path, "--on", "lab", "--plain"),
            lab.start("run", path, "--plain", "--out", lab.folder / "local" / name),
        )
        for name, (_, path) in files.items()
    }
    for name, (status, _) in files.items():
        there, here = (lab.end(process) for process in started[name])
        assert (there.returncode, here.returncode) == (status, status), (name, there.stderr, here.stderr)
        assert output(there.stdout) == output(here.stdout), (name, there.stderr)
        assert summary(there.stderr) == summary(here.stderr), name

    listed = {each["job"]: each for each in lab.json("ps", "--on", "lab")}
    assert {name: each["state"] for name, each in listed.items()} == {
        name: "failed" if status else "succeeded" for name, (status, _) in files.items()
    }
    demo, name = listed["demo"]["run"], listed["out-of-memory"]["run"]
    there = lab.json("ps", demo, "--on", "lab")["tasks"]
    here = lab.json("ps", str(lab.folder / "local" / "demo"))["tasks"]
    assert [(task["state"], task["exitCode"]) for task in there] == [
        (task["state"], task["exitCode"]) for task in here
    ], "though the cluster has removed the pods of tasks that had ended"
    for task in there:
        logs = lab.run("logs", demo, f"{task['role']}/{task['index']}", "--on", "lab")
        assert (logs.returncode, bool(logs.stdout)) == (0, True), logs.stderr
    analyzed = lab.run("analyze", name, "--on", "lab")
    assert "226 CudaOutOfMemory" in analyzed.stdout, analyzed.stderr
    late = listed["timed-out"]["run"]
    assert "242 TimeLimitReached" in lab.run("analyze", late, "--on", "lab").stdout
    assert "it timeout\n" in lab.run("logs", late, "worker/0", "--runtime", "--on", "lab").stdout
    runtime = lab.run("logs", name, "worker/0", "--runtime", "--on", "lab")
    assert "init plugin 'runtimePlugins'\n" in runtime.stdout, "of the init container"
    assert "USER COMMAND END\n" in runtime.stdout, "of the task"
    for secret in (SECRET, "an-open-secret"):
        check_no_secret(lab, secret)


LOOPS = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"


def test_a_run_is_left_and_followed_stopped_and_removed_from_elsewhere(lab: Lab) -> None:
    callbacks = [callback("taskExits", "echo exits $PAI_TASK_OUTCOME")]
    document = job(
        worker={"instances": 2, "commands": ["echo the secret is <% $secrets.who %>", LOOPS]},
        secrets={"who": SECRET},
        extras={
            "com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "parameters": {"callbacks": callbacks}}]
        },
    )
    first = lab.start("run", write_job(lab.folder, document), "--on", "lab", "--plain")
    assert first.stdout
    seen = [first.stdout.readline() for _ in range(4)]
    said = ("the secret is ******", "ready")
    assert sorted(seen) == sorted(f"worker/{index} | {text}\n" for index in (0, 1) for text in said)
    first.send_signal(signal.SIGINT)
    left = lab.end(first)
    (name,) = lab.names()
    assert left.returncode == 130
    assert f"pai-runtime stop {name} --on lab" in left.stderr

    followed = lab.start("logs", name, "-f", "--on", "lab")
    runtime = lab.start("logs", name, "worker/1", "-f", "--runtime", "--on", "lab")
    assert runtime.stdout
    assert "init plugin 'jobConfig'" in runtime.stdout.readline(), "it is followed"
    (listed,) = lab.json("ps", "--on", "lab")
    assert (listed["run"], listed["user"], listed["state"]) == (name, "ada", "running")
    tasks = lab.json("ps", name, "--on", "lab")["tasks"]
    assert [(task["state"], task["node"]) for task in tasks] == [("running", NODE)] * 2
    explained = lab.run("variables", name, "worker/0", "--on", "lab").stdout
    address = lab.pods(name)[1]["status"]["podIP"]
    assert f"PAI_HOST_IP_worker_1={address}\n" in explained, explained

    assert lab.run("rm", name, "--on", "lab").returncode == 2, "it is running"
    assert lab.run("stop", name, "--on", "lab").returncode == 0
    ended = lab.end(followed)
    saved = {f"worker/{index} | saved" for index in (0, 1)}
    assert (ended.returncode, saved - set(ended.stdout.splitlines())) == (0, set())
    assert "exits cancelled\n" in lab.end(runtime).stdout
    until(lambda: [each["state"] for each in lab.json("ps", "--on", "lab")] == ["cancelled"])
    removed = lab.run("rm", name, "--on", "lab")
    assert removed.returncode == 0, removed.stderr
    with lab.server.lock:
        assert {kind for kind, _, _ in lab.server.objects.by_key} == {"/api/v1/nodes"}
    check_no_secret(lab, SECRET)


def test_a_task_is_entered_with_what_its_command_has_and_its_files_are_copied(lab: Lab) -> None:
    prepared = {"name": "prepared", "callbacks": [callback("taskStarts", "export FROM_STEP='a b'")]}
    document = job(
        prerequisites=[prepared],
        worker={"prerequisites": ["prepared"], "commands": ["cd /tmp; echo ready; exec sleep 600"]},
    )
    run = lab.start("run", write_job(lab.folder, document), "--on", "lab", "--plain")
    assert run.stdout
    assert run.stdout.readline() == "ready\n"
    (name,) = lab.names()
    script = 'echo "$FROM_STEP of $PAI_CURRENT_TASK_ROLE_NAME in $(pwd)"; cat; exit 7'
    argv = [str(PROGRAM), "exec", "--on", "lab", name, "worker/0", "--", "sh", "-c", script]
    ended = subprocess.run(argv, input=b"\0\xff", capture_output=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == (b"a b of worker in /\n\0\xff", b"", 7)
    terminal = Terminal(PROGRAM, "exec", "--on", "lab", name, "worker")
    terminal.resize(30, 111)
    terminal.type(
        'until test "$(stty size)" = "30 111"; do sleep 0.01; done; echo "$TERM $FROM_STEP" $((1 + 1))\n'
    )
    terminal.wait_for("dumb a b 2")
    terminal.type("sh -c 'echo begun-$((1 + 1)); exec sleep 600'\n")
    terminal.wait_for("begun-2")
    terminal.type("\x03")
    terminal.wait_for(r"\^C")
    terminal.type("echo interrupted-$?\n")
    terminal.wait_for("interrupted-130")
    terminal.type("exit 5\n")
    assert terminal.end() == 5

    script = "mkdir -p out/deep; echo data >out/deep/file; ln -s /etc out/link"
    subprocess.run([*argv[:-1], script], timeout=60, check=True)
    copied = lab.run("cp", name, "worker/0:out", "copy", "--on", "lab")
    assert (copied.returncode, "link" in copied.stderr) == (0, True), copied.stderr
    assert (lab.folder / "copy/deep/file").read_text() == "data\n"
    assert not (lab.folder / "copy/link").is_symlink()
    assert lab.run("cp", name, "worker:out/deep/file", "-", "--on", "lab").stdout == "data\n"
    missing = lab.run("cp", name, "worker/0:/no/such", "copied", "--on", "lab")
    assert (missing.returncode, "No such file" in missing.stderr) == (2, True), missing.stderr

    stacks = lab.run("stacks", name, "worker/0", "--on", "lab")
    assert stacks.returncode == 0, stacks.stderr
    first, why_not, *_ = stacks.stdout.splitlines()
    assert first.startswith("worker/0 process "), stacks.stderr
    assert " (sleep), state S, " in first
    assert why_not == "  no stack: no Python"
    run.send_signal(signal.SIGINT)
    lab.end(run)


_EVICTED_ONCE = """\
echo attempt $FC_FRAMEWORK_ATTEMPT_ID $FC_TASK_ATTEMPT_ID
[ $PAI_TASK_INDEX$FC_FRAMEWORK_ATTEMPT_ID$FC_TASK_ATTEMPT_ID != 000 ] || exec sleep 600
"""


def test_pods_that_are_evicted_are_replaced_and_that_does_not_count(lab: Lab) -> None:
    started = {}
    for name, is_gang in (("gang", True), ("single", False)):
        worker = {"instances": 2 if is_gang else 1, "commands": _EVICTED_ONCE.splitlines()}
        (lab.folder / name).mkdir()
        path = write_job(lab.folder / name, job(name=name, worker=worker, extras={"gangAllocation": is_gang}))
        started[name] = lab.start("run", path, "--on", "lab", "--plain")
    until(lambda: len(lab.names()) == 2)
    for run in lab.names():
        # The peer too: the pod of one that is deleted while it starts may take its whole grace period.
        for index in range(2 if run.startswith("gang") else 1):
            until(partial(lab.said, run, f"worker-0-{index}", "attempt 0 0"))
        (pod,) = (each for each in lab.pods(run) if f"{run}-worker-0-0-" in each["metadata"]["name"])
        lab.played.evict(pod["metadata"]["name"])
    gang, single = (lab.end(started[name]) for name in ("gang", "single"))
    assert gang.returncode == single.returncode == 0, gang.stderr + single.stderr
    assert "worker/0 | attempt 1 0" in gang.stdout
    assert "worker/1 | attempt 1 0" in gang.stdout, "its peers are new, too"
    assert single.stdout == "attempt 0 0\nattempt 0 1\n"
    assert "the job was restarted once" in gang.stderr
    for text in (gang.stderr, single.stderr):
        assert "worker/0" in next(line for line in text.splitlines() if "evicted its pod" in line)


def test_who_deletes_a_pod_fails_its_run_and_the_task_and_the_cause_are_named(lab: Lab) -> None:
    document = job(worker={"instances": 2, "commands": ["echo ready; exec sleep 600"]})
    process = lab.start("run", write_job(lab.folder, document), "--on", "lab", "--plain")
    until(lab.names)
    (name,) = lab.names()
    until(lambda: all(lab.said(name, f"worker-0-{index}", "ready") for index in (0, 1)))
    (pod,) = (each for each in lab.pods(name) if f"{name}-worker-0-1-" in each["metadata"]["name"])
    lab.played.delete(pod["metadata"]["name"])
    ended = lab.end(process)
    assert "the job failed: task worker/1" in ended.stderr
    assert "its pod was deleted" in ended.stderr
    tasks = lab.json("ps", name, "--on", "lab")
    assert (tasks["failedTask"], [task["state"] for task in tasks["tasks"]]) == (
        "worker/1",
        ["stopped", "failed"],
    )


def test_why_tasks_do_not_start_is_shown(lab: Lab) -> None:
    resources = {"big": {"cpu": CPU + 1}, "greedy": {"memoryMB": 1024}, "unknown": {}}
    document = job(
        prerequisites=[{"name": "none", "type": "dockerimage", "uri": "example/none:1"}],
        taskRoles={
            name: {
                "dockerImage": "none" if name == "unknown" else "image",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0, **more},
                "commands": ["true"],
            }
            for name, more in resources.items()
        },
    )
    process = lab.start("run", write_job(lab.folder, document), "--on", "lab", "--plain")
    words = {"big": "Insufficient cpu", "greedy": "exceeded quota: team", "unknown": "manifest unknown"}
    assert process.stderr
    shown: list[str] = []
    while not all(any(each in line for line in shown) for each in words.values()):
        shown.append(process.stderr.readline())
        assert shown[-1], shown
    (name,) = lab.names()
    for task in lab.json("ps", name, "--on", "lab")["tasks"]:
        assert task["state"] == "waiting"
        assert words[task["role"]] in task["note"]
    assert lab.run("stop", name, "--on", "lab").returncode == 0
    assert lab.end(process).returncode == 130
    assert lab.run("rm", name, "--on", "lab").returncode == 0


def test_the_tutorial_does_on_a_cluster_what_it_says(lab: Lab) -> None:
    """Its commands, and that code too large for ConfigMaps comes to the same pods by a storage."""
    document = ROOT / "docs" / "tutorial.md"
    for block in blocks(document):
        if block.file in ("code/train.py", "job.yaml"):
            (lab.folder / block.file).parent.mkdir(exist_ok=True)
            (lab.folder / block.file).write_text(block.text, "utf-8")
    (lab.folder / "secrets.yaml").write_text(f"team: {SECRET}\n", "utf-8")
    for name in ("results", "codes"):
        (lab.folder / name).mkdir()
        (lab.folder / name).chmod(0o777)
    profile = {
        **lab.profile,
        "storages": {name: {"hostPath": str(lab.folder / name)} for name in ("results", "codes")},
        "code": {"storage": "codes", "mountedAt": str(lab.folder / "codes")},
    }
    write_profiles(lab.folder / "config", f"  lab: {json.dumps(profile)}\n")
    told = next(block for block in blocks(document) if "--all" in block.text and block.language == "sh")
    validate, run, logs, failing, everywhere = (
        shlex.split(line, comments=True)[1:] for line in told.text.splitlines()
    )
    done = lab.run(*validate)
    assert done.returncode == 0, done.stderr
    done = lab.run(*run)
    assert done.returncode == 0, done.stderr
    assert (lab.folder / "results" / "slope.txt").read_text("utf-8") == "2.68\n"
    assert "peak of memory, and CPU time: worker/0 " in done.stderr
    assert lab.run(*logs).stdout.endswith("distance = 2.68 * speed\n")
    assert list((lab.folder / "codes").iterdir()) == []
    (lab.folder / "code" / "model.bin").write_bytes(os.urandom(9 << 20))
    end = failing.index("||")
    failing, then = failing[:end], failing[end + 2 :]
    done = lab.run(*failing)
    assert done.returncode == 1, done.stderr
    assert "the fit diverges" in lab.run(*then).stdout
    (stored,) = (lab.folder / "codes" / "pai-code").glob("*.tar.gz")
    assert stored.stat().st_size > 9 << 20
    # Those of other tests on this machine are named by their directories.
    assert len(re.findall("^cars-", lab.run(*everywhere).stdout, re.MULTILINE)) == 2
    assert lab.run("rm", "latest", "--on", "lab").returncode == 0
    assert list(stored.parent.iterdir()) == []
    check_no_secret(lab, SECRET)
