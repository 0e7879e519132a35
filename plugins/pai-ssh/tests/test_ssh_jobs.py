"""The plugin com.microsoft.pai.runtimeplugin.ssh in real jobs: OpenSSH between tasks, and people."""

import contextlib
import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
import yaml

from pai_runtime.engines.local.ports import free_ports
from pai_ssh.files import write_files
from pai_ssh.keys import keys_of_run
from pai_ssh.peers import Peer
from pai_ssh.scripts import FOLDER, PREPARE, PROBE, SERVE
from pai_task.plan import PlannedService, Service
from tests.git_server import git
from tests.support import JOBS, PROGRAM, callback, cli, job, runtime_log, write_job
from tests.task_harness import isolating, plan, shell

pytestmark = [pytest.mark.process, pytest.mark.needs("openssh-server", "openssh-client")]

needs_root = pytest.mark.needs("root", "user namespaces")
NO_END = {"minSucceededInstances": -1}
USER = pwd.getpwuid(os.geteuid()).pw_name


def ssh(**parameters: Any) -> dict[str, Any]:
    """The extras of a job that uses the plugin."""
    return {"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": parameters}]}


def assert_in_order(lines: list[str], expected: list[str]) -> None:
    rest = iter(lines)
    for line in expected:
        assert line in rest, f"{line} is not in its place in {lines}"


OF_THE_FIRST_RUNTIME = ("[package_cache]", "* Restarting OpenBSD", "...done.")
"""How it installed and started sshd."""


@pytest.mark.parametrize("name", ["pre1", "pre2"])
def test_the_specifications_test_cases_give_the_lines_that_are_written_there_in_order(
    tmp_path: Path, name: str
) -> None:
    ended = cli("run", JOBS / f"{name}.yaml", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    lines = (JOBS / f"{name}.ssh.runtime.log").read_text().splitlines()
    expected = [line for line in lines if not line.startswith(OF_THE_FIRST_RUNTIME)]
    assert "[INFO] start ssh service" in expected
    assert_in_order(runtime_log(tmp_path / "run/taskrole/0"), expected)


def test_the_specifications_parameters_and_secrets_are_in_the_log(tmp_path: Path) -> None:
    ended = cli("run", JOBS / "parameters_and_secrets.yaml", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert_in_order(runtime_log(tmp_path / "run/taskrole/0"), ["111", "222", "[INFO] start ssh service"])


def test_the_specifications_wrong_configuration_is_an_error(tmp_path: Path) -> None:
    ended = cli("run", JOBS / "pre3_wrong.yaml", "--out", tmp_path / "run")
    assert ended.returncode == 2
    assert "'justecho_wrong'" in ended.stderr


def _instead_of_the_internet(folder: Path) -> dict[str, str]:
    """An environment with the specification's repository, and an apt that only says what it would do."""
    (folder / "bin").mkdir()
    (folder / "bin/apt").write_text('#!/bin/sh\necho apt "$@"\n')
    (folder / "bin/apt").chmod(0o755)
    repository = folder / "covid-chestxray-dataset.git"
    repository.mkdir()
    (repository / "metadata.csv").touch()
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "data")
    settings = folder / "gitconfig"
    settings.write_text(f'[url "file://{folder}/"]\n    insteadOf = https://github.com/ieee8023/\n')
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": str(settings)}


def test_the_specifications_older_job_still_works(tmp_path: Path) -> None:
    env = _instead_of_the_internet(tmp_path)
    args = ["--out", str(tmp_path / "run"), "--env", "GIT_CONFIG_GLOBAL"]
    ended = cli("run", JOBS / "backward_compatible.yaml", *args, env=env)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "run/taskrole/0/work/covid-chestxray-dataset/metadata.csv").exists()


@needs_root
def test_the_specifications_data_is_listed(tmp_path: Path) -> None:
    env = _instead_of_the_internet(tmp_path)
    args = ["--out", str(tmp_path / "run"), "--env", "GIT_CONFIG_GLOBAL"]
    ended = cli("run", JOBS / "data_prerequisite.yaml", *args, env=env)
    assert ended.returncode == 0, ended.stderr
    assert "metadata.csv" in ended.stdout
    assert_in_order(runtime_log(tmp_path / "run/taskrole/0"), ["apt update", "[INFO] start ssh service"])


BETWEEN = [
    "set -e",
    "ssh ps_server-0 'echo \"$PAI_CURRENT_TASK_ROLE_NAME knows $GREETING and $TOKEN in $PWD\"'",
    "ssh psserver-0 exit 7 || echo ended with $?",
    "echo content > file",
    "scp -q file ps_server-0:by-scp",
    "echo 'put file by-sftp' | sftp -q -b - ps_server-0 > /dev/null",
    "ssh ps_server-0 cat by-scp by-sftp",
    "ssh ps_server-0 < script",
    "cd \"$PAI_SSH_DIR\"; stat -c '%a %n' key host_key environment | sed 's|/.*/||'",
    "head -n 3 key; env | grep -c PRIVATE || :",
]


def _of_the_machine() -> dict[str, str]:
    """What must stay as it is."""
    folders = [Path("/etc/ssh"), Path.home() / ".ssh"]
    files = [path for folder in folders if folder.is_dir() for path in folder.rglob("*") if path.is_file()]
    return {str(path): f"{path.stat().st_mtime_ns} {path.stat().st_size}" for path in files}


def test_tasks_reach_each_other_by_name_without_any_set_up_and_no_key_stays(tmp_path: Path) -> None:
    extras = ssh(jobssh=True, sshbarrier=True)
    greeting = {"name": "greeting", "callbacks": [callback("taskStarts", "export GREETING='it'\"'\"'s me'")]}
    token = {"name": "token", "callbacks": [callback("taskStarts", "export TOKEN='<% $secrets.token %>'")]}
    document = job(
        prerequisites=[greeting, token],
        worker={
            "prerequisites": ["greeting", "token"],
            "commands": ["echo 'basename \"$PWD\"' > script", *BETWEEN],
        },
        secrets={"token": "not-for-anybody"},
        extras=extras,
    )
    server = {**document["taskRoles"]["worker"], "commands": ["exec sleep 1000"], "completion": NO_END}
    document["taskRoles"]["ps_server"] = server
    before = _of_the_machine()
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "run/ps_server/0/work"
    assert (tmp_path / "run/worker/0/logs/user-stdout/current").read_text().splitlines() == [
        f"ps_server knows it's me and ****** in {folder}",
        "ended with 7",
        "content",
        "content",
        "work",
        "600 key",
        "600 host_key",
        "600 environment",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "******",
        "******",
        "0",
    ]
    assert _of_the_machine() == before
    for task in ("worker/0", "ps_server/0"):
        assert not (tmp_path / "run" / task / "private").exists()
        assert "openssh-key-v1" not in (tmp_path / "run" / task / "plan.json").read_text()
    written = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert not [path for path in written if b"b3BlbnNzaC1rZXktdjEA" in path.read_bytes()]
    assert not [path for path in written if b"not-for-anybody" in path.read_bytes()]


@pytest.mark.needs("openmpi-bin")
def test_mpirun_runs_over_two_tasks(tmp_path: Path) -> None:
    rank = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in task $PAI_TASK_INDEX"
    commands = [
        '[ "$PAI_TASK_INDEX" = 0 ] || exec sleep 1000',
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        # On one machine, mpirun and its daemons would make the same directory at once, and sometimes fail.
        "agent='TMPDIR=$(mktemp -d) orted'",
        'export TMPDIR=$(mktemp -d) OMPI_MCA_orte_launch_agent="$agent"',
        f"mpirun --host worker-0,worker-1 -n 2 sh -c '{rank}'",
    ]
    worker = {"instances": 2, "commands": commands, "completion": {"minSucceededInstances": 1}}
    document = job(worker=worker, extras=ssh(jobssh=True, sshbarrier=True))
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [
        "worker/0 | rank 0 of 2 in task 0",
        "worker/0 | rank 1 of 2 in task 1",
    ]


@dataclass
class Running:
    """A job that is running, and waits for `go`."""

    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    private: Path
    clients: list[paramiko.SSHClient] = field(default_factory=list)

    def login(self, key: paramiko.PKey | None, **more: Any) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        client.get_host_keys().add(f"[127.0.0.1]:{self.port}", "ssh-ed25519", self.host_key)
        self.clients.append(client)
        client.connect(
            "127.0.0.1", self.port, USER, pkey=key, allow_agent=False, look_for_keys=False, timeout=60, **more
        )
        return client

    @property
    def host_key(self) -> paramiko.PKey:
        return paramiko.PKey.from_path(self.private / "ssh" / "host_key")


def _output(client: paramiko.SSHClient, command: str) -> str:
    return client.exec_command(command, timeout=60)[1].read().decode()


def _new_key(path: Path) -> tuple[paramiko.PKey, str]:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", path], check=True)
    return paramiko.PKey.from_path(path), path.with_suffix(".pub").read_text()


@contextlib.contextmanager
def running(folder: Path, document: dict[str, Any]) -> Iterator[Running]:
    """Run a job whose command tells its port and waits."""
    for name in ("up", "go"):
        os.mkfifo(folder / name)
    place = shlex.quote(str(folder))
    tell = [f"echo $PAI_CONTAINER_SSH_PORT > {place}/up", f"cat {place}/go"]
    document["taskRoles"]["worker"]["commands"] = tell
    with subprocess.Popen(
        [PROGRAM, "run", write_job(folder, document), "--out", folder / "run", "--isolation", "none"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        port = int((folder / "up").read_text())
        job = Running(folder, process, port, folder / "run/worker/0/private")
        try:
            yield job
        finally:
            for client in job.clients:
                client.close()
            (folder / "go").write_text("")
            process.wait(60)


def test_a_user_comes_in_with_his_key_and_nobody_without(tmp_path: Path) -> None:
    key, public = _new_key(tmp_path / "mine")
    other, _ = _new_key(tmp_path / "other")
    with running(tmp_path, job(extras=ssh(userssh={"type": "custom", "value": public}))) as task:
        with pytest.raises(paramiko.AuthenticationException):
            task.login(other)
        with pytest.raises(paramiko.BadAuthenticationType, match="publickey"):
            task.login(None, password="guess")
        client = task.login(key)
        assert _output(client, "echo $PAI_TASK_INDEX; pwd") == f"0\n{tmp_path}/run/worker/0/work\n"
        with client.open_sftp() as sftp:
            with sftp.open("sent", "w") as file:
                file.write("by sftp")
            assert sftp.listdir(".") == ["sent"]
        if os.geteuid() != 0:  # the group of terminals is not in the namespace of an ordinary user
            with pytest.raises((paramiko.SSHException, EOFError)):
                client.invoke_shell()
        else:
            terminal = client.invoke_shell()
            terminal.sendall(b"echo terminal: $(tty | cut -c 1-9) $PAI_TASK_INDEX; exit\n")
            shown = b"".join(iter(lambda: terminal.recv(1024), b""))
            assert b"terminal: /dev/pts/ 0" in shown
    assert task.process.returncode == 0
    assert (tmp_path / "run/worker/0/work/sent").read_text() == "by sftp"
    assert not task.private.exists()


def test_an_sshd_that_is_killed_starts_again(tmp_path: Path) -> None:
    key, public = _new_key(tmp_path / "mine")
    with running(tmp_path, job(extras=ssh(publicKeys=[public]))) as task:
        pid = (task.private / "ssh/sshd.pid").read_text().strip()
        os.kill(int(pid), 9)
        while True:  # the time limit of all tests ends it
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                assert _output(task.login(key), "echo back") == "back\n"
                break
    assert_in_order(
        runtime_log(tmp_path / "run/worker/0"),
        [
            "[INFO] start ssh service",
            "[WARNING] service 'ssh' ended with exit code 137; it is restarted in 1 s",
        ],
    )


LATE = [
    f"{shlex.quote(sys.executable)} - <<'END'",
    "import os, pathlib, time",
    "log = pathlib.Path(os.environ['LEADER']) / 'logs/runtime.log'",
    "while 'ssh barrier: waiting' not in log.read_text(): time.sleep(0.05)",
    "END",
]
"""Comes only when the leader waits."""


def _with_a_late_task(tmp_path: Path, late: list[str], **parameters: Any) -> dict[str, Any]:
    leader = tmp_path / "run/worker/0"
    prerequisite = {
        "name": "late",
        "callbacks": [callback("taskStarts", f"export LEADER={shlex.quote(str(leader))}", *late)],
    }
    document = job(
        prerequisites=[prerequisite],
        worker={"commands": ["echo went on"], "completion": {"minSucceededInstances": -1}},
        extras=ssh(jobssh=True, sshbarrier=True, **parameters),
    )
    document["taskRoles"]["late"] = {**document["taskRoles"]["worker"], "prerequisites": ["late"]}
    return document


def test_the_barrier_waits_for_a_task_that_comes_late(tmp_path: Path) -> None:
    document = _with_a_late_task(tmp_path, LATE)
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--isolation", "none")
    assert ended.returncode == 0, ended.stderr
    for task in ("worker/0", "late/0"):
        log = runtime_log(tmp_path / "run" / task)
        assert_in_order(
            log,
            [
                "[INFO] ssh barrier: all 2 tasks answer",
                "[INFO] USER COMMAND START",
                "[INFO] USER COMMAND END",
            ],
        )


def test_the_barrier_waits_for_tasks_that_have_ssh_by_another_use_and_not_for_those_without(
    tmp_path: Path,
) -> None:
    document = _with_a_late_task(tmp_path, LATE)
    worker = document["taskRoles"]["worker"]
    document["taskRoles"]["late"]["commands"] = ["exec sleep 1000"]
    document["taskRoles"]["none"] = {**worker, "commands": ["exec sleep 1000"]}
    worker["completion"] = {"minSucceededInstances": 1}
    document["extras"]["com.microsoft.pai.runtimeplugin"] = [
        {"plugin": "ssh", "taskroles": ["worker"], "parameters": {"jobssh": True, "sshbarrier": True}},
        {"plugin": "ssh", "taskroles": ["late"], "parameters": {"jobssh": True}},
    ]
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--isolation", "none")
    assert ended.returncode == 0, ended.stderr
    assert "sshbarrier does not wait for task roles without ssh: none" in ended.stderr
    log = runtime_log(tmp_path / "run/worker/0")
    assert_in_order(log, ["[INFO] ssh barrier: all 2 tasks answer", "[INFO] USER COMMAND START"])


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_the_barrier_names_a_task_that_does_not_come(tmp_path: Path, policy: str) -> None:
    document = _with_a_late_task(tmp_path, ["sleep 1000"], sshbarrierTimeout=0.03)
    document["extras"]["com.microsoft.pai.runtimeplugin"][0]["failurePolicy"] = policy
    document["taskRoles"]["worker"]["completion"] = {"minSucceededInstances": 1}
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    missing = "hook pai_task_starts: no answer by ssh within 1.8 seconds from "
    (line,) = (line for line in runtime_log(tmp_path / "run/worker/0") if missing in line)
    assert "late-0" in line.partition(missing)[2]
    assert ended.returncode == (249 if policy == "fail" else 0)
    assert ("went on" in ended.stdout) == (policy == "ignore")


LISTENS = f"""{shlex.quote(sys.executable)} - >/dev/null 2>&1 <<'END'
import os, signal, socket
server = socket.create_server(("127.0.0.1", int(os.environ["PAI_CONTAINER_SSH_PORT"])))
if os.fork() == 0:
    signal.pause()
END"""
"""Takes the port on one address only, of those where sshd would listen."""

TAKEN = {
    "no sshd": (
        'rm "$(PATH=$PATH:/usr/sbin; command -v sshd)"',
        "this image has no sshd, so nobody can log in; install openssh-server",
    ),
    "no user for sshd": ("sed -i /^sshd:/d /etc/passwd", "Privilege separation user sshd does not exist"),
    "no files": ('rm -r "$PAI_SSH_DIR"', "its files are missing, because they could not be created"),
    "no port": (LISTENS, "is taken by another process"),
}


@needs_root
@pytest.mark.parametrize(
    ("what", "policy"), [*((what, "fail") for what in TAKEN), ("no files", "ignore"), ("no port", "ignore")]
)
def test_what_the_image_lacks_is_said_and_the_failure_policy_is_followed(
    tmp_path: Path, what: str, policy: str
) -> None:
    script, message = TAKEN[what]
    document = job(
        prerequisites=[{"name": "take", "callbacks": [callback("taskStarts", script)]}],
        worker={"prerequisites": ["take"], "commands": ["echo went on"]},
        extras=ssh(jobssh=True, sshbarrier=True),
    )
    document["extras"]["com.microsoft.pai.runtimeplugin"][0]["failurePolicy"] = policy
    path = write_job(tmp_path, document)
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "required")
    assert any(message in line for line in runtime_log(tmp_path / "run/worker/0"))
    assert (ended.returncode, ended.stdout) == ((240, "") if policy == "fail" else (0, "went on\n"))
    assert (message in ended.stderr) == (policy == "fail")


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "a damaged key": (
        {"publicKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"]},
        "is damaged, or no public key; copy the whole line",
    ),
    "a role without it": ({"jobssh": True, "taskroles": ["nobody"]}, "known: worker"),
}


@pytest.mark.parametrize(
    ("what", "policy"), [*((what, "fail") for what in IMPOSSIBLE), ("a damaged key", "ignore")]
)
def test_what_cannot_be_followed_starts_nothing_or_is_left_out(
    tmp_path: Path, what: str, policy: str
) -> None:
    parameters, words = IMPOSSIBLE[what]
    document = job(worker={"commands": ['echo "went on ${PAI_SSH_DIR-without}"']}, extras=ssh(**parameters))
    document["extras"]["com.microsoft.pai.runtimeplugin"][0]["failurePolicy"] = policy
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert (ended.returncode, ended.stdout) == ((2, "") if policy == "fail" else (0, "went on without\n"))
    if policy == "fail":
        assert words in ended.stderr
        assert not (tmp_path / "run").exists()
    else:
        assert words in "\n".join(runtime_log(tmp_path / "run/worker/0"))


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_of_two_uses_in_one_task_the_second_is_refused_and_the_first_is_as_it_was(
    tmp_path: Path, policy: str
) -> None:
    prerequisite = {"name": "enable-ssh", "type": "script", "plugin": "ssh", "jobssh": True}
    document = job(
        prerequisites=[prerequisite],
        worker={"prerequisites": ["enable-ssh"], "commands": ["ssh worker-0 echo hello"]},
        extras=ssh(jobssh=False),
    )
    document["extras"]["com.microsoft.pai.runtimeplugin"][0]["failurePolicy"] = policy
    path = write_job(tmp_path, document)
    ended = cli("run", path, "--out", tmp_path / "run")
    assert (ended.returncode, ended.stdout) == ((240, "") if policy == "fail" else (0, "hello\n"))
    message = f"hook pai_init: ssh is set up in this task by the use at {path}:8:3 too; remove one of the two"
    assert message in "\n".join(runtime_log(tmp_path / "run/worker/0"))


def test_without_gang_allocation_there_is_no_jobssh_and_that_is_said(tmp_path: Path) -> None:
    commands = ['ls "$PAI_SSH_DIR"']
    document = job(worker={"commands": commands}, extras={**ssh(jobssh=True), "gangAllocation": False})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0
    assert not {"key", "config", "bin"} & set(ended.stdout.split())
    log = runtime_log(tmp_path / "run/worker/0")
    assert any("jobssh is off, because with gangAllocation: false" in line for line in log)


@pytest.mark.needs("root", "user namespaces", "util-linux")
def test_an_ordinary_users_task_lets_that_user_in() -> None:
    """As pai_init and the plan have it, in an isolated task."""
    with tempfile.TemporaryDirectory() as folder:
        anybodys, package = Path(folder), Path(folder, "package")
        anybodys.chmod(0o755)
        passwd = anybodys / "passwd"
        passwd.write_text(f"{Path('/etc/passwd').read_text()}someone:x:12345:12345::{folder}:/bin/sh\n")
        own = anybodys / "own"
        task = own / "task"
        _write_plan(task)
        for path in (own, *own.rglob("*")):
            os.chown(path, 12345, 12345)
        be = 'mount --bind "$1" /etc/passwd; shift; exec setpriv --reuid 12345 --regid 12345 --clear-groups'
        argv = ["unshare", "-m", "sh", "-c", f'{be} "$@"', "sh", str(passwd)]
        argv += ["/usr/bin/python3", "-I", "-c", isolating(package), str(own), "[]"]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd="/")
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == f"someone has it's mine in {task}/work\n"
        assert not (task / "private").exists()


def _write_plan(task: Path) -> None:
    (port,) = free_ports(1)
    ssh_folder = task / "ssh"
    (task / "work").mkdir(parents=True)
    keys = keys_of_run({"run": "a text that nobody knows"})
    write_files(ssh_folder, keys, [], port, [Peer("worker", 0, "127.0.0.1", port)])
    (task / "files").mkdir()
    ssh_folder.rename(task / "files" / "ssh")  # which the task has in the place of its folder
    whole = replace(
        plan(
            task,
            "ssh worker-0 'echo \"$(id -un) has $OWN in $PWD\"'",
            [shell("taskStarts", 0, PREPARE)],
            {FOLDER: str(ssh_folder), "OWN": "it's mine"},
        ),
        services=(PlannedService(0, Service("ssh", SERVE, probe=PROBE, required=True)),),
    )
    (task / "plan.json").write_text(json.dumps(whole.to_json()))


@needs_root
def test_a_session_runs_nothing_of_the_users_before_its_command(tmp_path: Path) -> None:
    """Bash reads ~/.bashrc for sshd; what that prints, or waits for, would be in the way of copied files."""
    script = "echo 'echo from bashrc' > /root/.bashrc"
    document = job(
        prerequisites=[{"name": "noisy", "callbacks": [callback("taskStarts", script)]}],
        worker={"prerequisites": ["noisy"], "commands": ["ssh worker-0 echo hello"]},
        extras=ssh(jobssh=True),
    )
    path = write_job(tmp_path, document)
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "required")
    assert (ended.returncode, ended.stdout) == (0, "hello\n"), ended.stderr


@needs_root
def test_a_task_without_an_ssh_client_is_told_so(tmp_path: Path) -> None:
    document = job(
        prerequisites=[{"name": "take", "callbacks": [callback("taskStarts", f"rm {shutil.which('ssh')}")]}],
        worker={"prerequisites": ["take"], "commands": ["ssh worker-0"]},
        extras=ssh(jobssh=True),
    )
    path = write_job(tmp_path, yaml.safe_dump(document))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "required")
    assert ended.returncode == 220
    assert "ssh: this image has no ssh client; install openssh-client in the image" in ended.stderr
    assert "[WARNING] ssh: this image has no ssh client" in "\n".join(runtime_log(tmp_path / "run/worker/0"))
