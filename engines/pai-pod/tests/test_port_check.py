"""The check of a task's ports: what counts as taken, with real sockets, and how it is named."""

import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from pai_pod.port_check import taken_ports
from pai_runtime.engines.local.ports import free_ports

Holder = Callable[[int, ExitStack], object]


@pytest.fixture
def port() -> int:
    (number,) = free_ports(1)
    return number


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


def _listens(address: str, family: int = socket.AF_INET, **options: bool) -> Holder:
    return lambda port, stack: stack.enter_context(
        socket.create_server((address, port), family=family, **options)
    )


def _connects_from(port: int, stack: ExitStack) -> None:
    """As when the system has given the port to an outgoing connection."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    client = stack.enter_context(socket.socket())
    client.bind(("127.0.0.1", port))
    client.connect(server.getsockname())


def _is_bound(port: int, stack: ExitStack) -> None:
    stack.enter_context(socket.socket()).bind(("", port))


def _had_a_connection(port: int, stack: ExitStack) -> None:
    """An earlier server has ended its connection, which the system remembers for a minute."""
    with socket.create_server(("127.0.0.1", port)) as server:
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        server.accept()[0].close()
        assert client.recv(1) == b""


def _udp(port: int, stack: ExitStack) -> None:
    stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)).bind(("", port))


@pytest.mark.parametrize(
    ("holder", "taken"),
    [
        (_listens(""), True),
        (_listens("127.0.0.1"), True),
        (_listens("127.0.0.1", reuse_port=True), True),
        (_listens("::", socket.AF_INET6), True),
        pytest.param(_listens("::1", socket.AF_INET6), True, marks=pytest.mark.needs("IPv6")),
        pytest.param(
            _listens("::", socket.AF_INET6, dualstack_ipv6=True), True, marks=pytest.mark.needs("IPv6")
        ),
        (_connects_from, True),
        (_is_bound, True),
        (_had_a_connection, False),
        (_udp, False),
    ],
)
def test_what_counts_as_taken(port: int, stack: ExitStack, holder: Holder, taken: bool) -> None:  # noqa: FBT001
    holder(port, stack)
    assert bool(taken_ports({"http": (port,)})) is taken


def test_the_check_leaves_the_port_free(port: int) -> None:
    assert taken_ports({"http": (port,)}) == []
    assert taken_ports({"http": (port,)}) == []
    socket.create_server(("", port)).close()


def test_each_taken_port_is_named_with_its_label(stack: ExitStack) -> None:
    ports = free_ports(4)
    for number in ports[1:3]:
        _listens("")(number, stack)
    found = taken_ports({"ssh": ports[:2], "http": ports[2:]})
    named = [(re.findall(r"\d+", line), re.findall("ssh|http", line)) for line in found]
    assert named == [([str(ports[1])], ["ssh"]), ([str(ports[2])], ["http"])]


@pytest.mark.parametrize("labels", [("ssh", "http"), ("http", "http")])
def test_a_port_that_was_given_twice_is_named(port: int, labels: Sequence[str]) -> None:
    given: dict[str, list[int]] = {}
    for label in labels:
        given.setdefault(label, []).append(port)
    (line,) = taken_ports(given)
    assert str(port) in line
    assert all(label in line for label in labels)


_AS_NOBODY = """
import os
from pai_pod.port_check import taken_ports
if os.geteuid() == 0:
    os.setuid(65534)
print(taken_ports({"low": (1,)}))
"""


@pytest.mark.process
def test_a_port_that_this_user_must_not_take_is_not_taken() -> None:
    """Nobody listens on port 1."""
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_machine_may_have_no_ipv6(
    monkeypatch: pytest.MonkeyPatch, port: int, stack: ExitStack, number: int
) -> None:
    """A stand-in: this machine may well have it."""
    create = socket.create_server

    def without_ipv6(address: Any, *, family: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, os.strerror(number))
        return create(address)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    assert taken_ports({"http": (port,)}) == []
    stack.enter_context(create(("", port)))
    assert len(taken_ports({"http": (port,)})) == 1
