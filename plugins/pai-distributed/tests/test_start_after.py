"""The plugin com.microsoft.pai.runtimeplugin.start_after: a task waits until a port of others answers."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pai_distributed.start_after import pai_task_starts
from pai_runtime.host.blame import PluginError
from pai_runtime.host.host import Host
from pai_runtime.host.planning import contribution_of
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import Task, Use, UserError
from tests.job_harness import parameter_problems
from tests.support import ROOT, cli, exit_record, job, runtime_log, write_job

ID = "com.microsoft.pai.runtimeplugin.start_after"
EXAMPLE = ROOT / "examples/distributed/start_after.yaml"


def use(**parameters: Any) -> Use:
    return Use(ID, "start_after", {"role": "server", **parameters}, "fail", "job.yaml:1:1", ("worker",))


def task(role: str = "worker", servers: int = 1) -> Task:
    return Task("job", role, 0, {"worker": 1, "server": servers}, {}, Path("/task"))


def told(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    for index, port in enumerate(ports):
        monkeypatch.setenv(f"PAI_HOST_IP_server_{index}", "127.0.0.1")
        monkeypatch.setenv(f"PAI_PORT_LIST_server_{index}_http", str(port))


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """A socket at whose port nobody answers, until it listens."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        yield deaf


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


@pytest.mark.process
def test_the_plugin_holds_what_its_manifest_declares() -> None:
    ended = cli("plugins", "check", ID)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.process
def test_a_task_waits_for_a_server_that_is_slow(tmp_path: Path) -> None:
    ended = cli("run", EXAMPLE, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "worker/0 | 200" in ended.stdout


def test_it_waits_until_the_tasks_of_the_role_answer_all(
    monkeypatch: pytest.MonkeyPatch, deaf: socket.socket
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        told(monkeypatch, port_of(first), port_of(deaf))
        waiting = threading.Thread(target=pai_task_starts, args=(use(), task(servers=2)))
        waiting.start()
        first.accept()[0].close()  # it has come to the first one, and the second does not listen yet
        assert waiting.is_alive()
        deaf.listen()
        waiting.join()


def test_whoever_does_not_answer_in_time_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, deaf: socket.socket
) -> None:
    told(monkeypatch, port_of(deaf))
    with pytest.raises(UserError) as caught:
        pai_task_starts(use(timeout_minutes=0.001), task())
    said = f"server/0 did not answer at 127.0.0.1:{port_of(deaf)} within 0.06 seconds: Connection refused"
    assert said in str(caught.value)


@pytest.mark.process
def test_a_task_whose_server_never_answers_fails_before_its_command(tmp_path: Path) -> None:
    extras = {
        "com.microsoft.pai.runtimeplugin": [
            {"plugin": "start_after", "parameters": {"role": "server", "timeout_minutes": 0.001}}
        ]
    }
    document = job(extras=extras, worker={"commands": ["echo ran"]})
    document["taskRoles"]["server"] = {**document["taskRoles"]["worker"], "commands": ["exec sleep infinity"]}
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode != 0
    assert "ran" not in ended.stdout
    record = exit_record(tmp_path / "run/worker/0")
    assert (record["outcome"], record["phase"]) == ("setup-failed", "taskStarts")
    assert any("server/0 did not answer" in line for line in runtime_log(tmp_path / "run/worker/0"))


def test_tasks_of_the_role_itself_do_not_wait(monkeypatch: pytest.MonkeyPatch, deaf: socket.socket) -> None:
    told(monkeypatch, port_of(deaf))
    pai_task_starts(use(), task("server"))


def test_a_port_can_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PAI_HOST_IP_server_0", "127.0.0.1")
        pai_task_starts(use(port=port_of(server)), task())


def test_a_port_that_the_other_has_not_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, 1)
    with pytest.raises(UserError, match="server/0 has no port 'grpc'"):
        pai_task_starts(use(port="grpc"), task())


def test_a_role_that_there_is_not_is_refused_while_the_job_is_planned() -> None:
    host = Host(NO_POLICY)
    with pytest.raises(PluginError, match="found sever; known: worker, server"):
        contribution_of(host.load(host.find(ID)), use(role="sever"), task())


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"role": "server", "port": 0},
        {"role": "server", "port": "80"},
        {"role": "server", "timeout_minutes": 0},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(parameters: dict[str, Any]) -> None:
    assert len(parameter_problems(ID, parameters)) == 1
