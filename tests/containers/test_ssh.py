"""ssh between tasks whose images have none: the bundle's, with what the plugin makes of the image's users."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import Problems
from pai_runtime.engines.local.ports import free_ports
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plan.environment import Placement, TaskPlace
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_ssh.files import write_files
from pai_ssh.keys import keys_of_run
from pai_ssh.peers import Peer
from pai_task.exit_codes import SETUP_FAILED
from tests.containers.pod import RUNTIME_DIR, Pod
from tests.containers.runc import Mount, Running
from tests.support import job, write_job

pytestmark = [
    pytest.mark.process,
    pytest.mark.needs("openssh-server", "openssh-client", "libnss-wrapper"),
]

_LOCALHOST = "127.0.0.1"
_VOLUME = "/usr/local/pai"
_DONE = f"{_VOLUME}/done"
_ENVIRONMENT = {"GREETING": "it's me", "LD_PRELOAD": "/lib/of-the-image.so"}

_FROM_OUTSIDE = (
    "ssh -q -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i $PAI_SSH_DIR/key"
    f" -p $PAI_PORT_LIST_worker_1_ssh $LOGIN@{_LOCALHOST}"
)
"""As people log in: a host that is not known as a task."""

_BETWEEN = [
    f'if [ "$PAI_TASK_INDEX" != 0 ]; then until [ -e {_DONE} ]; do sleep 0.1; done; exit; fi',
    f"cd {_VOLUME}",
    "ssh worker-1 'echo \"to $PAI_TASK_INDEX with $GREETING and $LD_PRELOAD\"; ssh worker-0 echo and back'",
    "ssh -tt worker-1 test -t 0 >tty.log && echo with a terminal",
    "ssh worker-1 exit 7 || echo ended with $?",
    "echo content > sent",
    f"scp -q sent worker-1:{_VOLUME}/by-scp",
    f"scp -O -q sent worker-1:{_VOLUME}/by-older-scp",
    f"echo 'put sent {_VOLUME}/by-sftp' | sftp -q -b - worker-1 > sftp.log",
    f"ssh worker-1 cat {_VOLUME}/by-scp {_VOLUME}/by-older-scp {_VOLUME}/by-sftp",
    f"{_FROM_OUTSIDE} 'echo as $USER in $PWD'",
    f"ssh worker-1 'echo > {_DONE}'",
]
_PRINTED = [
    "to 1 with it's me and /lib/of-the-image.so",
    "and back",
    "with a terminal",
    "ended with 7",
    *["content"] * 3,
    "as {login} in /",
]


@dataclass(frozen=True)
class TaskOf:
    """A task of an image, perhaps with a ``/etc/passwd`` of its own; `login` is a name that its user has."""

    image: str
    passwd: str = ""
    login: str = "root"
    how: Mapping[str, Any] = field(default_factory=dict)


_ORDINARY = {"user": 12345, "capabilities": (), "read_only": True}

_FEW = ("AUDIT_WRITE", "SETGID", "SETUID", "SYS_CHROOT")

PAIRS: Mapping[str, tuple[TaskOf, TaskOf]] = {
    "root in a read-only scratch image and an ordinary user": (
        TaskOf("scratch", how={"read_only": True, "capabilities": _FEW}),
        TaskOf("scratch", login="alice", how=_ORDINARY),
    ),
    "a root that cannot log in and a user with another name": (
        TaskOf("busybox", "root:!:0:0::/nowhere:/sbin/nologin\n"),
        TaskOf("busybox", "toor:x:12345:1::/:/bin/fish\n", "toor", how=_ORDINARY),
    ),
}


def _plans(folder: Path, ports: Sequence[int]) -> list[Any]:
    """Those of a job of two tasks, as they are in pods, without their init steps."""
    parameters = {"jobssh": True, "sshbarrier": True}
    document = job(
        worker={"instances": 2, "commands": _BETWEEN},
        extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": parameters}]},
    )
    places = {
        ("worker", index): TaskPlace(_LOCALHOST, {"ssh": (port,), "http": (1,)}, RUNTIME_DIR)
        for index, port in enumerate(ports)
    }
    problems = Problems()
    placement = Placement("user~job", "alice", places)
    planner = plan_job(JobFiles(write_job(folder, document)), Host(NO_POLICY), lambda _: placement, problems)
    plans = planner.plans()
    problems.check()
    return [replace(plan, steps=tuple(s for s in plan.steps if s.phase != "init")) for plan in plans.values()]


def _make_keys(pod: Pod, ports: Sequence[int], index: int) -> None:
    """What the plugin does in the init container, where the task's folder has the name it has in the task."""
    peers = [Peer("worker", number, _LOCALHOST, port) for number, port in enumerate(ports)]
    folder = pod.runtime_dir / "private/ssh"
    write_files(folder, keys_of_run({"run": "of this test"}), [], ports[index], peers)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.write_text(path.read_text().replace(str(pod.runtime_dir), RUNTIME_DIR))
    for path in [folder.parent, folder, *folder.rglob("*")]:  # as the init container leaves it to any user
        path.chmod(path.stat().st_mode | 0o666 | (0o111 if path.stat().st_mode & 0o100 else 0))


@contextmanager
def _task(pod: Pod, image: Path, **how: Any) -> Iterator[Running]:
    """A container that does not outlive what waits for it."""
    running = pod.task(image, **how)
    try:
        yield running
    finally:
        if running.process.returncode is None:
            running.send(signal.SIGKILL)
            running.end()


@pytest.mark.parametrize("which", PAIRS)
def test_two_tasks_log_in_to_each_other_and_copy_files(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path], which: str
) -> None:
    ports = free_ports(2)
    login = PAIRS[which][1].login
    env = {**_ENVIRONMENT, "LOGIN": login}
    with ExitStack() as ending:
        running = []
        for index, (task, plan) in enumerate(zip(PAIRS[which], _plans(tmp_path, ports), strict=True)):
            folder = tmp_path / str(index)
            folder.mkdir()
            pod = Pod(folder, bundle)
            pod.prepare(plan)
            _make_keys(pod, ports, index)
            (folder / "passwd").write_text(task.passwd)
            mounts = [Mount(folder / "passwd", "/etc/passwd")] if task.passwd else []
            started = _task(pod, image(task.image), env=env, mounts=mounts, **task.how)
            running.append(ending.enter_context(started))
        first, second = (each.end() for each in running)
    assert (first.code, first.stderr) == (0, "")
    assert first.stdout.splitlines() == [line.format(login=login) for line in _PRINTED]
    assert second.code == 0


def test_a_root_without_the_powers_that_sshd_needs_is_said_so(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path]
) -> None:
    pod = Pod(tmp_path, bundle)
    ports = free_ports(2)
    pod.prepare(_plans(tmp_path, ports)[0])
    _make_keys(pod, ports, 0)
    with _task(pod, image("scratch"), capabilities=()) as task:
        assert task.end().code == SETUP_FAILED
    (line,) = [line for line in pod.runtime_log if "capabilities SETGID, SETUID and SYS_CHROOT" in line]
    assert line.startswith("[ERROR] ssh: ")
