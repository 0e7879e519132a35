"""The plugin ``preflight_peers``: the tasks of a role reach each other, fast enough, and clocks agree."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pai_distributed.addresses import Address
from pai_distributed.preflight_peers import pai_task_starts
from pai_distributed.ring import Measured, PeerFault, Place, measure
from pai_plugin_kit import conformance
from pai_runtime.plugin import Task, Use
from tests.support import cli, exit_record, job, runtime_log, until, write_job

ID = "com.microsoft.pai.runtimeplugin.preflight_peers"

test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance(ID))


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[tuple[Address, ...]]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        addresses = tuple(Address("127.0.0.1", each.getsockname()[1]) for each in sockets)
    yield addresses


def ring(
    count: int,
    *,
    clocks: Sequence[Callable[[], float]] = (),
    names: Sequence[str] = (),
    missing: int | None = None,
    seconds: float = 60,
) -> list[Measured | str]:
    """What the tasks of a ring measure, or why not."""
    found: list[Measured | str] = [""] * count

    def one(index: int) -> None:
        try:
            clock = clocks[index] if clocks else time.time
            name = names[index] if names else "run role"
            found[index] = measure(Place(index, addresses, name), seconds, clock)
        except PeerFault as fault:
            found[index] = str(fault)

    with free_ports(count) as addresses:
        threads = [threading.Thread(target=one, args=(index,)) for index in range(count) if index != missing]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


@pytest.mark.parametrize("count", [2, 3, 7])
def test_all_tasks_of_a_ring_measure_the_one_before_them(count: int) -> None:
    found = [each for each in ring(count) if isinstance(each, Measured)]
    assert len(found) == count
    assert all(each.bytes_per_second > 0 for each in found)


def test_a_clock_that_is_wrong_is_seen_from_both_sides() -> None:
    first, second, third = ring(3, clocks=[time.time, lambda: time.time() + 1000, time.time])
    assert isinstance(first, Measured)
    assert isinstance(second, Measured)
    assert isinstance(third, Measured)
    assert [round(each.clock_ahead, -2) for each in (first, second, third)] == [0, -1000, 1000]


def test_who_does_not_come_is_named_by_its_neighbours() -> None:
    found = ring(3, missing=1, seconds=0.5)
    assert str(found[0]).startswith("task 1 cannot be reached at 127.0.0.1:")
    assert found[2] == "task 1 did not come"


def connection_to(address: Address) -> socket.socket | None:
    with contextlib.suppress(ConnectionRefusedError):
        return socket.create_connection(address)
    return None


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n" + bytes(100), bytes(44)])
def test_strangers_at_the_port_are_sent_away(said: bytes) -> None:
    found: list[Measured] = []
    with free_ports(2) as addresses:
        first = threading.Thread(target=lambda: found.append(measure(Place(0, addresses, "a"), 60)))
        first.start()
        stranger = until(lambda: connection_to(addresses[0]))
        assert stranger
        with stranger:  # the first in the queue
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            found.append(measure(Place(1, addresses, "a"), 60))
            first.join()
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    assert len(found) == 2


def test_tasks_of_different_runs_do_not_form_a_ring() -> None:
    found = ring(2, names=["this run", "another run"], seconds=1)
    assert found == ["task 1 did not come", "task 0 did not come"]


@pytest.mark.parametrize("task", [{"instances": {"worker": 1}}, {"instances": {"worker": 2}, "gang": False}])
def test_a_task_that_has_no_peers_to_wait_for_checks_nothing(task: dict[str, object]) -> None:
    use = Use(ID, "preflight_peers", {}, "fail", "job.yaml:1:1", ("worker",))
    given = {"job": "job", "role": "worker", "index": 0, "ports": {}, "folder": Path("/task"), **task}
    pai_task_starts(use, Task(**given))  # type: ignore[arg-type]


@pytest.mark.process
@pytest.mark.parametrize(
    ("parameters", "code", "phrase"),
    [({}, 0, None), ({"mbPerSecond": 1e6}, 251, "PreflightBandwidth")],
)
def test_a_job_is_checked_before_its_commands(
    tmp_path: Path, parameters: dict[str, object], code: int, phrase: str | None
) -> None:
    role = {
        "instances": 3,
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        "commands": ["echo up"],
    }
    uses = [{"plugin": "preflight_peers", "parameters": parameters}]
    document = job(taskRoles={"worker": role}, extras={"com.microsoft.pai.runtimeplugin": uses})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--plain")
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.count("up\n") == (0 if code else 3)
    records = [exit_record(tmp_path / f"run/worker/{index}") for index in range(3)]
    if phrase:
        assert (code, phrase) in {(each["exitCode"], each.get("phrase")) for each in records}
    if not code:
        assert "MB/s from worker/2; its clock is 0.0" in "\n".join(runtime_log(tmp_path / "run/worker/0"))
