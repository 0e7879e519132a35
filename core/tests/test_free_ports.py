"""Ports of local runs: no two runs have the same, also before a server listens."""

import os
import signal
import subprocess
import sys

import pytest

from pai_runtime.engines.local import ports
from pai_runtime.engines.local.ports import NoFreePorts, free_ports

_ANOTHER_RUN = """
import os, sys
os.getpid = lambda: int(sys.argv[1])
from pai_runtime.engines.local.ports import free_ports
print(*free_ports(100), flush=True)
sys.stdin.read()
"""


def another_run() -> subprocess.Popen[str]:
    """A run whose search starts where ours does; it lives until its standard input is closed."""
    argv = [sys.executable, "-c", _ANOTHER_RUN, str(os.getpid())]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ports_of(run: subprocess.Popen[str]) -> set[int]:
    assert run.stdout
    return set(map(int, run.stdout.readline().split()))


@pytest.mark.process
def test_runs_at_the_same_time_have_no_port_in_common_though_nobody_listens_yet() -> None:
    with another_run() as first, another_run() as second:
        found = [ports_of(first), ports_of(second), set(free_ports(100)), set(free_ports(100))]
        first.communicate()
        second.communicate()
    assert [len(each) for each in found] == [100] * 4
    assert len(set().union(*found)) == 400


@pytest.mark.process
def test_the_ports_of_a_run_that_was_killed_are_free_again() -> None:
    with another_run() as killed:
        before = ports_of(killed)
        killed.send_signal(signal.SIGKILL)
    with another_run() as next_one:
        after = ports_of(next_one)
        next_one.communicate()
    assert len(before & after) > 50  # all, but for those that something else has taken since


@pytest.fixture
def all_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_claim", lambda _: False)
    monkeypatch.setattr(ports, "_own", [])


@pytest.mark.usefixtures("all_claimed")
def test_where_all_are_claimed_there_are_ports_nevertheless() -> None:
    assert len(set(free_ports(100))) == 100


@pytest.mark.usefixtures("all_claimed")
def test_more_ports_than_there_are_cannot_be_had() -> None:
    with pytest.raises(NoFreePorts):
        free_ports(ports.END - ports.FIRST + 1)
