"""The plugin com.microsoft.pai.runtimeplugin.ssh without its servers: parameters, keys and files."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_plugin_kit import conformance
from pai_runtime.plugin import Task, Use, UserError
from pai_ssh import barrier
from pai_ssh.barrier import VERDICT, Barrier
from pai_ssh.files import write_files
from pai_ssh.keys import Keys, keys_of_run
from pai_ssh.peers import Peer, find_peers
from pai_ssh.request import read_request
from pai_ssh.scripts import FOLDER, PREPARE
from pai_task.placeholders import placeholder
from tests.job_harness import parameter_problems
from tests.support import cli

ID = "com.microsoft.pai.runtimeplugin.ssh"
test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance(ID))
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO6u3/qYJQy1+kUGbyeZfVfT5mXP0rLVpyqHkW9GY1fJ"
ROLES = ("worker", "ps_server", "Chief")
TASK = Task("job", "worker", 0, {"worker": 2, "ps_server": 1, "Chief": 1}, {"ssh": (15000,)}, Path("/task"))


def use(plugin_roles: tuple[str, ...] = ROLES, **parameters: Any) -> Use:
    """A use in two of the roles; `plugin_roles` have that or another one of ssh."""
    return Use(ID, "ssh", parameters, "fail", "job.yaml:1:1", ("worker", "ps_server"), plugin_roles)


def problems(**parameters: Any) -> list[str]:
    found = parameter_problems(ID, parameters)
    return [str(problem) for problem in found]


@pytest.mark.process
def test_the_plugin_holds_what_its_manifest_declares() -> None:
    ended = cli("plugins", "check", ID)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"jobssh": True},
        {"jobssh": "true", "sshbarrier": "true", "sshbarrierTimeout": 0.5},
        {"jobssh": True, "userssh": {"type": "custom", "value": ""}},
        {"userssh": {"type": "none"}},
        {"userssh": {"type": "none", "value": None}},
        {"userssh": {"value": None}},
        {"userssh": None},
        {"userssh": {"type": "system"}},
        {"userssh": {"type": "custom", "value": f"{ED25519} me@example.com\n{ED25519}\r\n\n"}},
        {"publicKeys": [ED25519, f"  {ED25519} two words\n"]},
        {"publicKeys": None},
    ],
)
def test_parameters_as_jobs_have_them_are_valid(parameters: dict[str, Any]) -> None:
    assert problems(**parameters) == []
    read_request(use(**parameters), TASK)


@pytest.mark.parametrize(
    "key",
    [
        "not a key",
        "ssh-ed25519",
        "ssh-ed25519 ABCD",
        f"{ED25519}\nrubbish",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----",
        f'command="rm -rf /" {ED25519}',
        f"ssh-ed25519,{ED25519}",
    ],
)
@pytest.mark.parametrize("where", ["userssh", "publicKeys"])
def test_what_is_no_public_key_is_a_validation_error(key: str, where: str) -> None:
    parameters = {"userssh": {"type": "custom", "value": key}, "publicKeys": [key]}
    (problem,) = problems(**{where: parameters[where]})
    assert "expected public keys in OpenSSH format" in problem


@pytest.mark.parametrize(
    "key",
    [
        ED25519[:-4],
        ED25519[:-1],
        ED25519.replace("ssh-ed25519", "ssh-rsa"),
        f"{ED25519}AAAA",
        ED25519.replace("AAAAC3", "AAAAC4"),
    ],
)
def test_a_damaged_public_key_is_refused_before_anything_is_started(key: str) -> None:
    with pytest.raises(UserError, match=r"^publicKeys\[1\]: line 2 is damaged, .* of its \.pub file$"):
        read_request(use(publicKeys=[ED25519, f"{ED25519}\n{key}"]), TASK)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
@pytest.mark.needs("openssh-client")
def test_keys_of_every_usual_kind_are_public_keys(tmp_path: Path, kind: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / "key"], check=True)
    key = (tmp_path / "key.pub").read_text()
    assert problems(publicKeys=[key]) == []
    assert read_request(use(publicKeys=[key]), TASK).keys == (key.strip(),)


@pytest.mark.parametrize(
    ("where", "parameters"),
    [
        ("userssh.value", lambda key: {"userssh": {"type": "custom", "value": key}}),
        ("userssh.value", lambda key: {"userssh": {"value": key}}),
        ("publicKeys[1]", lambda key: {"publicKeys": [ED25519, key]}),
    ],
)
def test_a_key_in_a_secret_is_checked_where_it_is_known_and_never_shown(
    where: str, parameters: Callable[[str], dict[str, Any]]
) -> None:
    planned = parameters(placeholder("my.key"))
    assert problems(**planned) == []
    assert read_request(use(**planned), TASK).keys == ((ED25519,) if "publicKeys" in planned else ())
    assert read_request(use(**parameters(ED25519)), TASK).keys[-1] == ED25519
    for value in ("not-a-key", "ssh-ed25519", "ssh-ed25519 not-a-key", "-----BEGIN not-a-key"):
        with pytest.raises(UserError) as caught:
            read_request(use(**parameters(value)), TASK)
        assert str(caught.value).startswith(f"{where}: line 1 ")
        assert "not-a-key" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"jobssh": placeholder("s")}, "jobssh"),
        ({"sshbarrier": placeholder("s")}, "sshbarrier"),
        ({"userssh": {"type": placeholder("s")}}, "userssh.type"),
        ({"userssh": placeholder("s")}, "userssh"),
        ({"sshbarrierTimeout": placeholder("s")}, "sshbarrierTimeout"),
    ],
)
def test_what_is_no_free_text_is_no_secret(parameters: dict[str, Any], field: str) -> None:
    (problem,) = parameter_problems(ID, parameters)
    assert problem.field.endswith(field)
    assert problem.found == '"<% $secrets.s %>"'


@pytest.mark.parametrize("minutes", [0, -1, 1e300, "30"])
def test_the_barrier_waits_for_a_number_of_minutes_that_a_clock_knows(minutes: Any) -> None:
    (problem,) = parameter_problems(ID, {"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": minutes})
    assert problem.field.endswith("sshbarrierTimeout")


BARRIER: dict[str, Any] = {"jobssh": True, "sshbarrier": True}
ALONE = ("worker", "ps_server")


@pytest.mark.parametrize(
    ("parameters", "plugin_roles", "barrier", "waiting"),
    [
        ({"jobssh": True}, ROLES, (), ()),
        ({"jobssh": True, "sshbarrier": "false"}, ROLES, (), ()),
        (BARRIER, ROLES, ROLES, ALONE),
        (BARRIER, ALONE, ALONE, ALONE),
        ({**BARRIER, "taskroles": ["worker"]}, ROLES, ("worker",), ("worker",)),
        ({**BARRIER, "taskroles": ["Chief", "worker"]}, ROLES, ("worker", "Chief"), ("worker",)),
        ({**BARRIER, "taskroles": ["ps_server"]}, ROLES, (), ()),
    ],
)
def test_a_task_waits_for_all_tasks_of_the_job_that_have_ssh_whatever_use_they_have_it_by(
    parameters: dict[str, Any],
    plugin_roles: tuple[str, ...],
    barrier: tuple[str, ...],
    waiting: tuple[str, ...],
) -> None:
    request = read_request(use(plugin_roles, **parameters), TASK)
    assert (request.barrier, request.waiting) == (barrier, waiting)


def test_the_barrier_waits_for_half_an_hour_unless_told_otherwise() -> None:
    assert read_request(use(**BARRIER), TASK).seconds == 30 * 60
    assert read_request(use(**BARRIER, sshbarrierTimeout=0.5), TASK).seconds == 30


@pytest.mark.parametrize(
    ("parameters", "gang", "reached", "warning"),
    [
        ({"jobssh": True}, "gang", "tasks", None),
        ({"jobssh": False}, "gang", "users", None),
        (BARRIER, "gang", "tasks", "sshbarrier does not wait for task roles without ssh: Chief"),
        ({**BARRIER, "taskroles": ["worker"]}, "gang", "tasks", None),
        ({"sshbarrier": True}, "gang", "users", "sshbarrier is off, because it needs jobssh"),
        (BARRIER, "no gang", "users", "jobssh is off, because with gangAllocation: false"),
    ],
)
def test_what_is_not_given_as_asked_for_is_a_warning(
    parameters: dict[str, Any], gang: str, reached: str, warning: str | None
) -> None:
    request = read_request(use(ALONE, **parameters), replace(TASK, gang=gang == "gang"))
    assert request.job == (reached == "tasks")
    assert bool(request.barrier) == (reached == "tasks" and "sshbarrier" in parameters)
    assert [text.startswith(warning or "") for text in request.warnings] == ([True] if warning else [])


def test_a_role_that_has_no_ssh_cannot_be_waited_for() -> None:
    with pytest.raises(UserError, match="taskroles: expected roles with ssh, found Chief"):
        read_request(use(ALONE, taskroles=["worker", "Chief"]), TASK)


def test_all_tasks_of_a_run_make_the_same_keys_and_other_runs_others() -> None:
    keys, again, other = (keys_of_run({"run": text}) for text in ("one", "one", "two"))
    assert (keys.host.public, keys.job.public) == (again.host.public, again.job.public)
    assert len({key.public for each in (keys, other) for key in (each.host, each.job)}) == 4
    assert "PRIVATE" not in repr(keys)


@pytest.mark.parametrize("of_the_run", [{}, {"run": "one"}])
def test_keys_that_a_cluster_gives_are_used(of_the_run: dict[str, str]) -> None:
    secrets = {
        "jobSSH": json.dumps({"key": "-----BEGIN RSA PRIVATE KEY-----", "pubKey": "ssh-rsa AAAA"}),
        "sshKeys": json.dumps([{"title": "mine", "value": ED25519, "time": "0"}]),
        **of_the_run,
    }
    keys = keys_of_run(secrets)
    assert (keys.job.private, keys.job.public) == ("-----BEGIN RSA PRIVATE KEY-----", "ssh-rsa AAAA")
    assert keys.users == (ED25519,)
    assert keys.host.public == keys_of_run(secrets).host.public


def test_a_platform_that_gives_nothing_to_make_keys_of_is_an_error() -> None:
    with pytest.raises(UserError, match="no secret from which keys can be made"):
        keys_of_run({"sshKeys": "[]"})


ADDRESSES = {
    "PAI_HOST_IP_worker_0": "10.0.0.1",
    "PAI_PORT_LIST_worker_0_ssh": "15000,15001",
    "PAI_HOST_IP_ps_server_0": "10.0.0.2",
    "PAI_PORT_LIST_ps_server_0_ssh": "15002",
    "PAI_HOST_IP_Chief_0": "10.0.0.3",
    "PAI_PORT_LIST_Chief_0_ssh": "15003",
}
PEERS = [
    Peer("worker", 0, "10.0.0.1", 15000),
    Peer("ps_server", 0, "10.0.0.2", 15002),
    Peer("Chief", 0, "10.0.0.3", 15003),
]


def test_peers_are_those_that_the_platform_knows_the_place_of() -> None:
    assert find_peers(TASK, ADDRESSES) == PEERS


def test_peers_of_a_large_job_are_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps(ADDRESSES))
    assert find_peers(TASK, {"PAI_TASKS_FILE": str(tmp_path / "tasks.json")}) == PEERS


@pytest.fixture
def keys() -> Keys:
    return keys_of_run({"run": "one", "sshKeys": json.dumps([{"value": ED25519}])})


def test_nobody_else_can_read_the_files(tmp_path: Path, keys: Keys) -> None:
    folder = tmp_path / "private" / "ssh"
    write_files(folder, keys, [], 15000, PEERS)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {**dict.fromkeys(modes, 0o600), **dict.fromkeys(("ssh", "scp", "sftp"), 0o700)}
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]


def test_without_jobssh_there_is_no_way_from_task_to_task(tmp_path: Path, keys: Keys) -> None:
    write_files(tmp_path / "ssh", keys, [ED25519], 15000, None)
    names = {path.name for path in (tmp_path / "ssh").iterdir()}
    assert names == {"host_key", "known_hosts", "authorized_keys", "sshd_config", "session"}
    assert keys.job.public not in (tmp_path / "ssh/authorized_keys").read_text()


@pytest.mark.process
@pytest.mark.needs("openssh-client")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["worker-0"], {"hostname 10.0.0.1", "port 15000", "batchmode yes", "hostkeyalias pai-job"}),
        (["-v", "me@ps_server-0", "true"], {"hostname 10.0.0.2", "port 15002", "stricthostkeychecking true"}),
        (["psserver-0", "true"], {"hostname 10.0.0.2", "port 15002", "hostkeyalias pai-job"}),
        (["chief-0"], {"hostname 10.0.0.3", "port 15003", "batchmode yes"}),
        (["ssh://Chief-0"], {"hostname 10.0.0.3", "port 15003", "batchmode yes"}),
        (["elsewhere.example"], {"hostname elsewhere.example", "port 22", "batchmode no"}),
        (["worker-night.example"], {"hostname worker-night.example", "batchmode no"}),
    ],
)
def test_ssh_knows_the_tasks_by_name_and_leaves_other_hosts_alone(
    tmp_path: Path, keys: Keys, arguments: list[str], expected: set[str]
) -> None:
    folder = tmp_path / "a folder with 100% of 'them'"
    write_files(folder, keys, [], 15000, PEERS)
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    answer = subprocess.run(
        ["ssh", "-G", *arguments], env=environment, capture_output=True, text=True, check=True
    )
    assert expected <= set(answer.stdout.splitlines())


@pytest.mark.process
def test_a_user_without_a_name_is_told_why_nobody_can_come_in(tmp_path: Path) -> None:
    for name, status in (("sshd", 0), ("id", 1)):
        (tmp_path / name).write_text(f"#!/bin/sh\nif [ $1 = -u ]; then echo 1234; else exit {status}; fi\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", FOLDER: str(tmp_path)}
    ended = subprocess.run(
        ["sh", "-c", PREPARE], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "[ERROR] ssh: user 1234 has no name in /etc/passwd, and sshd lets in nobody without\n"
    )


def test_a_peer_that_hangs_up_is_named_and_leaves_no_traceback(
    tmp_path: Path, keys: Keys, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers = [Peer("worker", 0, "127.0.0.1", server.getsockname()[1])]
        write_files(tmp_path, keys, [], 15000, peers)

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(UserError, match=r"no answer by ssh within 0.5 seconds from worker-0"):
            Barrier(peers, ["worker"], 0.5).wait("worker-0", tmp_path, lambda _: None)
        server.shutdown(socket.SHUT_RDWR)
    assert capfd.readouterr() == ("", "")


def test_those_who_do_not_lead_hear_from_the_leader_how_it_went(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / VERDICT).write_text("[]")
    Barrier(PEERS, ROLES, 60).wait("Chief-0", tmp_path, said.append)
    assert said[-1] == "[INFO] ssh barrier: all 3 tasks answer"
    (tmp_path / VERDICT).write_text('["ps_server-0"]')
    with pytest.raises(UserError, match=r"from ps_server-0$"):
        Barrier(PEERS, ROLES, 60).wait("Chief-0", tmp_path, said.append)


def test_a_leader_that_tells_nothing_is_the_one_who_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "LATE", 0)
    with pytest.raises(UserError, match=r"from worker-0$"):
        Barrier(PEERS, ROLES, 0.1).wait("Chief-0", tmp_path, lambda _: None)
