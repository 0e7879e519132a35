"""How a task ends in a container of its own, in which the runtime is the first process."""

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pai_pod.volume import keep_from_others
from pai_task.folder import Folder
from pai_task.plan import Step
from tests.containers.pod import RUNTIME_DIR, Pod
from tests.containers.runc import Mount, Running
from tests.task_harness import plan, shell

pytestmark = pytest.mark.process

Image = Callable[[str], Path]


def _ready(pod: Pod) -> None:
    """Have a FIFO by which the task says that it has come so far."""
    os.mkfifo(pod.volume / "ready")
    (pod.volume / "ready").chmod(0o666)


def _wait(pod: Pod) -> None:
    (pod.volume / "ready").read_text()


_READY = "echo > /usr/local/pai/ready"


def test_a_task_that_is_told_to_stop_saves_its_work_and_runs_its_exit_callbacks(
    pod: Pod, image: Image
) -> None:
    _ready(pod)
    command = f"trap 'echo saved; exit 0' TERM; {_READY}; while :; do sleep 0.01; done"
    pod.prepare(plan(RUNTIME_DIR, command, [shell("taskExits", 0, "echo exits $PAI_TASK_OUTCOME")]))
    task = pod.task(image("busybox"))
    _wait(pod)
    task.send(signal.SIGTERM)
    ended = task.end()
    assert (ended.code, ended.stdout) == (143, "saved\n")
    assert pod.runtime_log[-1] == "exits cancelled"
    assert (pod.record["outcome"], pod.record["exitCode"]) == ("cancelled", 143)


def test_orphans_are_reaped_and_ended_with_the_task(pod: Pod, image: Image) -> None:
    command = (
        "for i in 1 2 3 4 5; do sh -c 'sleep 0 &'; done\n"
        "(setsid sleep 1000 &)\n"
        "while grep -q 'State:.Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.01; done\n"
        "echo done"
    )
    pod.prepare(plan(RUNTIME_DIR, command))
    ended = pod.run_task(image("busybox"))
    assert (ended.code, ended.stdout) == (0, "done\n")


def test_a_task_that_is_killed_leaves_its_logs_and_is_not_run_again(pod: Pod, image: Image) -> None:
    _ready(pod)
    pod.prepare(plan(RUNTIME_DIR, f"echo working; {_READY}; sleep 1000"))
    task = pod.task(image("busybox"))
    _wait(pod)
    while (pod.logs / "user-all/current").read_text() != "working\n":
        pass
    task.send(signal.SIGKILL)
    assert task.end().code == 137
    again = pod.run_task(image("busybox"))
    assert (again.code, again.stdout) == (241, "")
    assert "left nothing for this container" in pod.termination_message


def test_a_task_that_failed_is_held_until_it_is_released_from_within(pod: Pod, image: Image) -> None:
    _ready(pod)
    given = plan(RUNTIME_DIR, f"{_READY}; exit 5", [shell("taskFails", 0, "echo over")])
    pod.prepare(replace(given, hold=600))
    task = pod.task(image("busybox"))
    _wait(pod)
    _release(task)
    assert task.end().code == 5
    assert any("held" in line for line in pod.runtime_log)
    assert pod.runtime_log[-1] == "over"


def _release(task: Running) -> None:
    """From a session in the container, as a person would, who waits until the state says so."""
    state = f"{RUNTIME_DIR}/state.json"
    task.exec("sh", "-c", f"until grep -q held {state}; do sleep 0.05; done; touch {RUNTIME_DIR}/release")


_HOSTILE = {
    "LD_PRELOAD": "/lib/ld-musl-x86_64.so.1",
    "LD_LIBRARY_PATH": "/lib:/usr/lib",
    "LD_AUDIT": "/lib/audit.so",
    "LD_BIND_NOW": "1",
    "GLIBC_TUNABLES": "glibc.malloc.check=3",
    "GCONV_PATH": "/nowhere",
    "LOCPATH": "/nowhere",
    "LANG": "xx_YY.EUC-JP",
    "LC_ALL": "POSIX",
    "PYTHONHOME": "/nowhere",
    "PYTHONPATH": "/nowhere",
    "PYTHONSTARTUP": "/nowhere",
    "PYTHONWARNINGS": "error",
    "PYTHONIOENCODING": "ascii",
    "OPENSSL_CONF": "/nowhere",
    "BASH_ENV": "/nowhere",
    "ENV": "/nowhere",
    "CDPATH": "/",
    "IFS": "x",
    "TMPDIR": "/nowhere",
    "TERM": "dumb",
    "with.dot": "a b",
    "EMPTY": "",
    "LINES": "one\ntwo\n",
}


@pytest.mark.parametrize(
    ("name", "user"),
    [
        pytest.param("musl", 0, marks=pytest.mark.needs("musl-tools")),
        ("scratch", 0),
        ("scratch", 12345),
    ],
)
def test_an_environment_that_is_hostile_to_us_reaches_the_command_and_does_us_no_harm(
    pod: Pod, image: Image, name: str, user: int
) -> None:
    pod.prepare(plan(RUNTIME_DIR, "exec env -0", [shell("taskStarts", 0, "export LATER=too")]))
    ended = pod.run_task(image(name), env=_HOSTILE, user=user)
    found = dict(line.split("=", 1) for line in ended.stdout.split("\0") if line)
    assert (ended.code, ended.stderr) == (0, "")
    # A shell keeps its own IFS, and that of busybox no name that it could not set.
    kept = _HOSTILE.keys() - {"IFS"} - ({"with.dot"} if name == "musl" else set())
    assert {name: found.get(name) for name in kept} == {name: _HOSTILE[name] for name in kept}
    assert found["LATER"] == "too"
    own = {
        "PATH",
        "HOME",
        "FC_POD_UID",
        "PAI_WORK_DIR",
        "PAI_MASK",
        "PYTHONUNBUFFERED",
        "LATER",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "IFS",
    }
    theirs = {name for name in found if name.startswith(("FC_", "PAI_", "NVIDIA_"))}
    assert found.keys() - _HOSTILE.keys() - theirs <= own


def _a_file(folder: Path) -> Mount:
    (folder / "null").write_text("not empty")
    (folder / "null").chmod(0o666)
    return Mount(folder / "null", "/dev/null")


def _a_fifo(folder: Path) -> Mount:
    os.mkfifo(folder / "null")
    (folder / "null").chmod(0o666)
    return Mount(folder / "null", "/dev/null")


@pytest.mark.parametrize("make", [_a_file, _a_fifo])
def test_where_there_is_no_dev_null_that_is_said_and_recorded(
    pod: Pod, image: Image, tmp_path: Path, make: Callable[[Path], Mount]
) -> None:
    pod.prepare(plan(RUNTIME_DIR, "echo never"))
    ended = pod.run_task(image("busybox"), mounts=[make(tmp_path)])
    assert (ended.code, ended.stdout, "Traceback" in ended.stderr) == (241, "", False)
    assert (pod.record["exitCode"], "/dev/null" in pod.record["message"]) == (241, True)
    assert pod.termination_message.startswith("[PAI_RUNTIME_ERROR_START]\nexitCode: 241\n")


@pytest.mark.parametrize(
    ("user", "taken", "callback"),
    [
        (0, "rm -rf bundle runtime", 126),
        (0, "mv bundle x", 126),
        (
            0,
            "mv bundle x; mkdir bundle; cp -r x/applets x/bin bundle; printf 'exit 0' >bundle/bin/python3",
            126,
        ),
        (12345, "mv bundle x || exit 7", 0),
    ],
)
def test_a_command_that_takes_the_bundle_away_ends_as_it_would_with_it(
    pod: Pod, image: Image, user: int, taken: str, callback: int
) -> None:
    subprocess.run(["cp", "-rl", pod.bundle, pod.volume / "bundle"], check=True)
    with Folder.at(pod.volume) as folder:
        keep_from_others(folder)  # as init does
    steps = [
        shell("taskExits", 0, "echo over"),
        Step("taskExits", 1, "fail", hook="pai_task_exits"),
    ]
    pod.prepare(plan(RUNTIME_DIR, f"cd /usr/local/pai; {taken}; exit 7", steps))
    ended = pod.run_task(image("busybox"), user=user)
    assert (ended.code, "Traceback" in ended.stderr) == (7, False)
    assert pod.record["originUserExitCode"] == 7
    assert pod.termination_message.startswith("[PAI_RUNTIME_ERROR_START]\nexitCode: 7\n")
    assert "over" in pod.runtime_log
    failures = [line for line in pod.runtime_log if line.endswith(f"ended with exit code {callback}")]
    assert len(failures) == bool(callback)
