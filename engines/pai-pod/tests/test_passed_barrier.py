"""How the pods of a gang learn that all of its tasks have passed the barrier."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from pai_pod.passed import ASK_EVERY, ASKED_AT_ONCE, MOST_HEARD, PassedBarrier, passed_barrier
from tests.git_server import Clock
from tests.init_harness import address

SECONDS = 40.0
ATTEMPT = "0_6f1d"


class Gang:
    """Tasks that each have an address of this machine; those that were made have passed the barrier."""

    port = 14999

    def __init__(self, closing: ExitStack, *names: str) -> None:
        self._closing = closing
        self.clock = Clock()
        self.addresses = {name: address(index) for index, name in enumerate(names, 2)}

    def passes(self, name: str, *, peers: Mapping[str, str] | None = None) -> PassedBarrier:
        if peers is None:
            peers = {each: at for each, at in self.addresses.items() if each != name}
        made = PassedBarrier(name, self.addresses[name], peers, self.port, SECONDS, lambda: self.clock.now)
        self._closing.callback(made.close)
        return made

    def look(self, *tasks: PassedBarrier) -> None:
        for task in tasks:
            task.look()
        self.clock.sleep(ASK_EVERY)

    def other(self, number: int) -> socket.socket:
        """What somebody else listens with, at the address with a number."""
        made = self._closing.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.settimeout(0)
        made.bind((address(number), self.port))
        return made


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def heard(listener: socket.socket) -> list[bytes]:
    heard = []
    with suppress(BlockingIOError):
        while True:
            heard.append(listener.recv(2000))
    return heard


def test_all_know_it_as_soon_as_the_last_one_has_passed(closing: ExitStack) -> None:
    gang = Gang(closing, "a", "b", "c")
    first, second = gang.passes("a"), gang.passes("b")
    for _ in range(10):
        gang.look(first, second)
        assert not first.by_all
        assert not second.by_all
    last = gang.passes("c")
    for _ in range(2):
        gang.look(last, first, second)
    assert first.by_all
    assert second.by_all
    assert last.by_all


@pytest.mark.parametrize("looks_first", [0, 1])
def test_the_last_one_knows_it_though_the_others_leave_as_soon_as_they_do(
    closing: ExitStack, looks_first: int
) -> None:
    gang = Gang(closing, "a", "b")
    first = gang.passes("a")
    gang.look(first)
    last = gang.passes("b")
    while not first.by_all:
        gang.look(*(last, first) if looks_first else (first, last))
    first.close()  # its pod is gone
    gang.look(last)
    assert last.by_all


def test_each_knows_it_though_all_others_leave_as_soon_as_they_may(closing: ExitStack) -> None:
    gang = Gang(closing, "a", "b", "c")
    staying = {gang.passes(name) for name in ("a", "b")}
    for task in staying:
        task.look()  # and asks no more for a while
    late = gang.passes("c")
    for task in (late, *staying, late, *staying):
        task.look()
    assert late.by_all
    everyone = {*staying, late}
    for _ in range(20):
        gang.look(*everyone)
        for task in [each for each in everyone if each.may_leave]:
            everyone.remove(task)
            task.close()
    assert not everyone


def test_who_knows_it_tells_those_that_do_not_for_one_that_has_left(closing: ExitStack) -> None:
    gang = Gang(closing, "a", "b", "c")
    tasks = [gang.passes(name) for name in ("a", "b")]
    late = gang.passes("c")
    for _ in range(2):
        gang.look(*tasks)
    late._hear()
    gang.look(*tasks)
    assert [task.by_all for task in tasks] == [True, True]
    tasks[0].close()
    gang.look(late, tasks[1], late)
    assert late.by_all


def test_a_task_answers_for_itself_in_its_attempt_alone(closing: ExitStack) -> None:
    gang = Gang(closing, "1/a", "1/b", "1/c")
    answering = gang.passes("1/b")
    for name, is_it in {"1/b": True, "0/b": False, "1/c": False}.items():
        asking = gang.passes("1/a", peers={name: gang.addresses["1/b"]})
        for _ in range(3):
            gang.look(asking, answering)
        assert asking.by_all == is_it
        asking.close()


def test_nobody_else_can_answer_and_strangers_are_told_nothing(closing: ExitStack) -> None:
    gang = Gang(closing, "a", "b")
    task, at = gang.passes("a"), (gang.addresses["a"], gang.port)
    stranger, number = gang.other(9), os.urandom(16)
    for data in (b"", b"?", b"*", b"?" + number, b"?" + number + b"b", b"?" + number + b"a" * 2000):
        stranger.sendto(data, at)
    for kind in (b"+", b"*"):
        stranger.sendto(kind + number + b"b", at)
    gang.look(task)
    assert not task.by_all
    assert heard(stranger) == []
    echo = gang.other(3)  # such as a program of the peer's
    gang.look(task)
    (asked,) = heard(echo)
    for data in (asked, b"x" + asked[1:], b"*" + asked[1:] + b"x"):
        echo.sendto(data, at)
    gang.look(task)
    assert not task.by_all


def test_a_flood_does_not_hold_it_up(closing: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(closing, "a", "b")
    task, received = gang.passes("a"), 0

    class Flooded:
        def __init__(self, of: socket.socket) -> None:
            self.sendto, self.fileno, self.close = of.sendto, of.fileno, of.close

        def recvfrom(self, _size: int) -> tuple[bytes, object]:
            nonlocal received
            received += 1
            return b"?", ("127.0.0.1", 9)

    monkeypatch.setattr(task, "_socket", Flooded(task._socket))
    task.look()
    assert received == MOST_HEARD


def test_of_many_tasks_a_few_are_asked_at_once_and_each_in_its_turn(closing: ExitStack) -> None:
    gang = Gang(closing, "own")
    peer = gang.other(9)
    tasks = 2 * ASKED_AT_ONCE + 50
    task = gang.passes("own", peers={str(index): address(9) for index in range(tasks)})
    asked = []
    for _ in range(3):
        gang.look(task, task, task)  # the last two are too soon
        of_look = heard(peer)
        assert len(of_look) == ASKED_AT_ONCE
        asked += of_look
    assert len({data[17:] for data in asked}) == tasks


def test_it_asks_for_some_time_and_then_answers_for_some_and_then_the_port_is_free(
    closing: ExitStack,
) -> None:
    gang = Gang(closing, "a", "b")
    task, peer = gang.passes("a"), gang.other(3)
    question = b"?" + b"0123456789abcdef" + b"a"
    gang.clock.sleep(SECONDS)
    peer.sendto(question, (gang.addresses["a"], gang.port))
    gang.look(task)
    assert heard(peer) == [b"+" + question[1:]]
    gang.clock.sleep(SECONDS)
    gang.look(task, task)
    gang.other(2)
    assert not task.by_all


_PLAN = {
    "gang": True,
    "role": "worker",
    "index": 1,
    "instances": {"worker": 2, "ps": 1},
    "environment": [{"name": "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", "value": "1_6f1d", "source": "platform"}],
}
_HOSTS = {
    "PAI_HOST_IP_worker_0": address(2),
    "PAI_HOST_IP_worker_1": address(3),
    "PAI_HOST_IP_ps_0": address(4),
}


def _passed(folder: Path, plan: Any, hosts: Any, port: str = str(Gang.port)) -> PassedBarrier | None:
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "shared.json").write_text(json.dumps({"platform": {}, "peers": hosts}))
    return passed_barrier(folder, port, SECONDS)


def test_a_task_finds_its_peers_in_its_plan(tmp_path: Path, closing: ExitStack) -> None:
    peers = [Gang(closing).other(number) for number in (2, 4)]
    made = _passed(tmp_path, _PLAN, _HOSTS)
    assert made
    closing.callback(made.close)
    made.look()
    assert [[data[17:] for data in heard(peer)] for peer in peers] == [
        [b"1_6f1d/worker/0"],
        [b"1_6f1d/ps/0"],
    ]
    assert _passed(tmp_path, _PLAN, _HOSTS) is None, "the port is taken"


@pytest.mark.parametrize(
    ("plan", "hosts", "port"),
    [
        ({}, {}, ""),
        ({}, {}, "-1"),
        ({}, {}, "x"),
        ({}, {}, "65536"),
        ({"gang": False}, {}, None),
        ({"instances": {"worker": 1}, "index": 0}, {}, None),
        ({"index": 7}, {}, None),
        ({"index": []}, {}, None),
        ({"role": {}}, {}, None),
        ({"instances": ["worker"]}, {}, None),
        ({"instances": {"worker": 10**15}}, {}, None),
        ({"instances": {"worker": 1.5}}, {}, None),
        ({"environment": []}, {}, None),
        ({"environment": [3]}, {}, None),
        ({}, {"PAI_HOST_IP_ps_0": "ps-0.run"}, None),
        ({}, {"PAI_HOST_IP_ps_0": "fd00::1"}, None),
        ({}, {"PAI_HOST_IP_ps_0": ["127.0.0.4"]}, None),
        ({}, {"PAI_HOST_IP_worker_1": "192.0.2.1"}, None),
    ],
)
def test_where_it_finds_none_it_asks_nobody(tmp_path: Path, plan: Any, hosts: Any, port: str | None) -> None:
    given = [] if port is None else [port]
    assert _passed(tmp_path, {**_PLAN, **plan}, {**_HOSTS, **hosts}, *given) is None


@pytest.mark.needs("IPv6")
def test_a_network_of_ipv6_is_one_too(closing: ExitStack) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as peer:
        peer.bind(("::1", 0))
        port = peer.getsockname()[1]
    made = PassedBarrier("a", "::1", {"b": "::1"}, port, SECONDS)
    closing.callback(made.close)
    made.look()  # the peer's address is its own, and so it hears the question for another one
    assert not made.by_all
