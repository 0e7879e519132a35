"""The peer barrier: how it ends, after how many lookups, and in how much simulated time.

The name server is a function: which names lead where from which second on. The signals reach a real process.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_network.deadline import Deadline
from pai_pod import peer_barrier
from pai_pod.errors import BarrierFailed
from pai_pod.peer_barrier import (
    LONGEST_PAUSE,
    MOST_MISSED,
    PER_SECOND,
    PeerSearch,
    cluster_domain,
    find_addresses,
    resolve,
)
from pai_pod.peers import Peers
from pai_task.exit_codes import INIT_GANG_TIMEOUT
from tests.git_server import Clock

OWN = ("worker", 1)
ADDRESS = {("worker", 0): "10.0.0.1", OWN: "10.0.0.2", ("ps", 0): "10.0.0.3"}
NAMES = {task: f"{task[0]}-{task[1]}.run" for task in ADDRESS}


class NameServer:
    """Knows the addresses of a name from a second on, 0 without; counts what it is asked."""

    def __init__(
        self, clock: Clock, addresses: Mapping[str, Sequence[str]], since: Mapping[str, float] | None = None
    ) -> None:
        self._clock, self._started = clock, clock.now
        self._addresses, self._since = addresses, since or {}
        self.asked: list[str] = []

    def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if name not in self._addresses or self._clock.now - self._started < self._since.get(name, 0):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._addresses[name]


def addresses(**changes: Sequence[str]) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {NAMES[task]: [address] for task, address in ADDRESS.items()}
    return {**found, **{f"{name.replace('_', '-')}.run": each for name, each in changes.items()}}


def search(
    server: Callable[[str], Sequence[str]], names: Mapping[tuple[str, int], str] = NAMES
) -> PeerSearch:
    """The longest pauses are drawn."""
    return PeerSearch(names, OWN, "10.0.0.2", server, draw=lambda _, high: high)


def wait(
    server: NameServer, clock: Clock, seconds: float = 600, said: list[str] | None = None
) -> tuple[PeerSearch, int]:
    """The search after the wait, and the exit code."""
    made = search(server)
    deadline = Deadline(seconds, lambda: clock.now, clock.sleep)
    try:
        made.wait_for_all(deadline, (said if said is not None else []).append)
    except BarrierFailed as failure:
        if said is not None:
            said.append(str(failure))
        return made, failure.code
    return made, 0


def test_each_name_is_looked_up_once_our_own_first() -> None:
    clock = Clock()
    server = NameServer(clock, addresses())
    made, code = wait(server, clock)
    assert (code, made.found) == (0, ADDRESS)
    assert server.asked == ["worker-1.run", "worker-0.run", "ps-0.run"]


def test_only_those_that_are_missing_are_asked_for_again() -> None:
    clock, said = Clock(), list[str]()
    server = NameServer(clock, addresses(), {"ps-0.run": 10})
    made, code = wait(server, clock, said=said)
    assert (code, made.found) == (0, ADDRESS)
    assert server.asked.count("worker-0.run") == server.asked.count("worker-1.run") == 1
    assert server.asked.count("ps-0.run") > 2
    assert len(said) == 1  # nothing has changed meanwhile
    assert "ps/0" in said[0]
    assert "worker" not in said[0]


def test_where_our_own_name_is_not_known_no_other_is_asked_for() -> None:
    clock, said = Clock(), list[str]()
    server = NameServer(clock, addresses(), {"worker-1.run": 1e9})
    _, code = wait(server, clock, said=said)
    assert code == INIT_GANG_TIMEOUT
    assert set(server.asked) == {"worker-1.run"}
    assert "CoreDNS" in said[-1]


def test_at_the_deadline_the_missing_are_named() -> None:
    clock, said = Clock(), list[str]()
    began = clock.now
    server = NameServer(clock, addresses(ps_0=[]))
    _, code = wait(server, clock, said=said)
    assert code == INIT_GANG_TIMEOUT
    assert "1 of 3 tasks" in said[-1]
    assert "ps/0" in said[-1]
    assert 600 - LONGEST_PAUSE - 1 <= clock.now - began <= 600


@pytest.mark.parametrize(
    ("found", "is_found"),
    [
        (["10.0.0.3"], True),
        (["10.0.0.3", "10.0.0.3"], True),
        (["fd00::3"], True),
        (["10.0.0.3", "fd00::3"], True),
        (["10.0.0.3", "fd00::3", "fd00::4"], True),
        (["10.0.0.3", "10.0.0.4"], False),
        (["10.0.0.3", "10.0.0.4", "fd00::3"], False),
        ([], False),
    ],
)
def test_a_name_with_several_addresses_may_lead_to_an_earlier_pod(
    found: Sequence[str], *, is_found: bool
) -> None:
    clock = Clock()
    made = search(NameServer(clock, addresses(ps_0=found)))
    made.once(Deadline(600))
    assert made.found.get(("ps", 0)) == (found[0] if is_found else None)


def test_our_own_name_has_to_lead_to_us() -> None:
    clock = Clock()
    made = search(NameServer(clock, addresses(worker_1=["10.0.0.9"])))
    made.once(Deadline(600), MOST_MISSED)
    assert made.found == {}
    made = search(NameServer(clock, addresses(worker_1=["10.0.0.9", "10.0.0.2"])))
    made.once(Deadline(600), MOST_MISSED)
    assert made.found[OWN] == "10.0.0.2"


def test_a_resolver_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_barrier, "LOOKUP_SECONDS", 0.01)
    never = threading.Event()

    def hang(_name: str) -> Sequence[str]:
        never.wait()
        return []

    made = search(hang)
    try:
        made.once(Deadline(600))
    finally:
        never.set()
    assert made.missed == [OWN, ("worker", 0), ("ps", 0)]


@given(st.integers(2, 60), st.sets(st.integers(0, 59)), st.integers(1, 300))
def test_few_are_asked_for_in_vain(tasks: int, late: set[int], seconds: int) -> None:
    clock = Clock()
    began = clock.now
    names = {("worker", index): f"w-{index}" for index in range(tasks)}
    known = {name: ["10.0.0.2"] for name in names.values()}
    server = NameServer(clock, known, {f"w-{index}": seconds for index in late})
    deadline = Deadline(600, lambda: clock.now, clock.sleep)
    made = search(server, names)
    made.wait_for_all(deadline, lambda _: None)
    rounds = 5 + (clock.now - began) / LONGEST_PAUSE  # the first pauses are shorter
    assert len(server.asked) <= tasks + MOST_MISSED * rounds
    assert set(made.found) == set(names)


def test_two_thousand_pods_do_not_press_the_name_server() -> None:
    clock = Clock()
    began = clock.now
    names = {("worker", index): f"w-{index}" for index in range(2000)}
    server = NameServer(clock, {name: ["10.0.0.2"] for name in names.values()})
    # The mean of the pauses that are drawn.
    made = PeerSearch(names, OWN, None, server, draw=lambda low, high: (low + high) / 2)
    made.wait_for_all(Deadline(600, lambda: clock.now, clock.sleep), lambda _: None)
    assert len(server.asked) == 2000
    assert 2000 * len(server.asked) / (clock.now - began) == pytest.approx(PER_SECOND)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("nameserver 10.96.0.10\nsearch lab.svc.cluster.local svc.cluster.local\n", "lab.svc.cluster.local"),
        ("search example.com lab.svc.k8s.example.com.\n", "lab.svc.k8s.example.com"),
        ("search other.svc.cluster.local\n", ""),
        ("#search lab.svc.cluster.local\n", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_domain_of_services_is_what_the_resolver_searches(
    tmp_path: Path, text: str | None, domain: str
) -> None:
    file = tmp_path / "resolv.conf"
    if text is not None:
        file.write_text(text)
    assert cluster_domain("lab", file) == domain
    assert cluster_domain("", file) == ""


def test_a_name_is_looked_for_in_its_domain_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [
            (socket.AF_INET6, 1, 6, "", ("fd00::1", 0, 0, 0)),
            (socket.AF_INET, 1, 6, "", ("10.0.0.1", 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert resolve("w-0.run", "lab.svc.cluster.local") == ["fd00::1", "10.0.0.1"]
    resolve("w-0.run")
    assert asked == ["w-0.run.lab.svc.cluster.local.", "w-0.run"]


def test_of_two_families_the_one_of_our_own_address_counts() -> None:
    made = search(NameServer(Clock(), addresses(ps_0=["fd00::3", "10.0.0.3"])))
    made.once(Deadline(600))
    assert made.found["ps", 0] == "10.0.0.3"


def test_who_waits_for_nobody_makes_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = Clock(), list[str]()
    server = NameServer(clock, addresses(), {"worker-0.run": 1e9, "worker-1.run": 1e9})
    monkeypatch.setattr(peer_barrier, "resolve", lambda name, domain: server(name))  # noqa: ARG005
    peers = Peers("run", "alice", gang=False, barrier_seconds=600, hosts={})
    found = find_addresses(peers, NAMES, OWN, {"POD_IP": "10.0.0.2"}, said.append)
    assert found == {OWN: "10.0.0.2", ("ps", 0): "10.0.0.3"}
    assert len(server.asked) == 3
    assert "worker/0" in said[0]


def test_a_task_of_a_gang_waits_for_the_others_in_each_of_its_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = NameServer(Clock(), addresses(), {"worker-1.run": 1e9})
    monkeypatch.setattr(peer_barrier, "resolve", lambda name, domain: server(name))  # noqa: ARG005
    peers = Peers("run", "alice", gang=True, barrier_seconds=0.01, hosts={})
    with pytest.raises(BarrierFailed):
        find_addresses(peers, NAMES, OWN, {"POD_IP": "10.0.0.2", "PAI_TASK_ATTEMPT": "1"}, print)


def test_the_only_task_needs_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerSearch, "once", None)
    peers = Peers("run", "alice", gang=True, barrier_seconds=600, hosts={})
    assert find_addresses(peers, {OWN: "w"}, OWN, {"POD_IP": "fd00::1"}, print) == {OWN: "fd00::1"}


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_wait_at_once(number: int) -> None:
    script = (
        "import os, sys; from pai_pod.stopping import Stopped, raise_stopped;"
        "from pai_pod import peer_barrier; from pai_pod.peers import Peers;"
        "import threading; wait = threading.Event().wait;"
        "peer_barrier.resolve = lambda name, domain: (os.write(1, b'\\n'), wait());"
        "raise_stopped(); peers = Peers('run', 'alice', True, 600, {});"
        'exec(\'try: peer_barrier.find_addresses(peers, {("w", 0): "w"}, ("w", 0), {}, print)\\n'
        "except Stopped as stopped: sys.exit(stopped.code)')"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout
        process.stdout.readline()  # it looks up
        process.send_signal(number)
        assert process.wait() == 128 + number
