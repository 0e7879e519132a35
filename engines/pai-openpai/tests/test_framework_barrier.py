"""The Framework barrier: how it ends, after how many requests, and in how much simulated time.

The API server is a stand-in, for no cluster can be had here; the signals reach a real process.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pai_network.deadline import Deadline
from pai_openpai import api_server
from pai_openpai.framework_barrier import INTERVAL, SECONDS, wait_for_framework
from pai_pod.errors import BarrierFailed
from tests.fault_server import FaultServer, Reply
from tests.git_server import Clock

PASSES, TRANSIENT, GANG_TIMEOUT, PERMANENT = 0, 250, 251, 252

COMPLETE = Reply(body=b"[]")
WAITING = Reply(body=b'["worker-1"]')
HALF = Reply(raw=b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n["work')
LARGE = Reply(body=1001 * b" " + b"[]")
WRONG = Reply(body=b"<html>")
BUSY = Reply(429, headers={"Retry-After": "60"})


def _missing(document: bytes) -> list[str]:
    """As the stand-in's Framework is a list of the tasks that have no address."""
    names: list[str] = json.loads(document)
    return names


def _wait(
    replies: Sequence[Reply], said: list[str] | None = None, **environment: str
) -> tuple[int, int, float]:
    """The exit code, the number of requests and the simulated seconds, where the longest pauses are drawn."""
    clock = Clock()
    started = clock.now
    with FaultServer(*replies) as server:
        try:
            document = wait_for_framework(
                {"FC_FRAMEWORK_NAME": "one", "KUBE_APISERVER_ADDRESS": server.url, **environment},
                _missing,
                (said if said is not None else []).append,
                deadline=Deadline(SECONDS, lambda: clock.now, clock.sleep),
                draw=lambda _, high: high,
                service_account=Path("/nonexistent"),
            )
        except BarrierFailed as failure:
            code = failure.code
        else:
            assert document == replies[-1].body
            code = PASSES
    return code, len(server.requests), clock.now - started


@pytest.mark.parametrize(
    ("replies", "code", "requests", "seconds"),
    [
        ([COMPLETE], PASSES, 1, 0),
        ([WAITING, WAITING, COMPLETE], PASSES, 3, 24),
        ([WAITING], GANG_TIMEOUT, 50, 588),
        ([Reply(400)], PERMANENT, 1, 0),
        ([Reply(401)], PERMANENT, 1, 0),
        ([Reply(403)], PERMANENT, 1, 0),
        ([Reply(404)], PERMANENT, 1, 0),
        ([WAITING, Reply(404)], PERMANENT, 2, 12),
        ([WAITING, Reply(401), COMPLETE], PERMANENT, 2, 12),
        ([Reply(302, headers={"Location": "/"})], PERMANENT, 1, 0),
        ([LARGE], PERMANENT, 1, 0),
        ([Reply(500), Reply(503), COMPLETE], PASSES, 3, 1 + 2),
        ([HALF, HALF, COMPLETE], PASSES, 3, 1 + 2),
        ([Reply(raw=b""), COMPLETE], PASSES, 2, 1),
        ([WRONG, WRONG, COMPLETE], PASSES, 3, 1 + 2),
        ([WRONG, WRONG, WAITING, WRONG, WRONG, COMPLETE], PASSES, 6, 1 + 2 + 12 + 1 + 2),
        ([WRONG], PERMANENT, 3, 1 + 2),
        ([BUSY, BUSY, COMPLETE], PASSES, 3, 60 + 1 + 60 + 2),
        ([Reply(429, headers={"Retry-After": "700"})], TRANSIENT, 1, 0),
        ([Reply(500), WAITING, Reply(500), WAITING, COMPLETE], PASSES, 5, 1 + 12 + 1 + 12),
        ([Reply(500)], TRANSIENT, 24, 1 + 2 + 4 + 8 + 16 + 18 * 30),
        ([WAITING, HALF], TRANSIENT, 25, 12 + 1 + 2 + 4 + 8 + 16 + 18 * 30),
        ([Reply(500), WAITING], GANG_TIMEOUT, 51, 1 + 49 * 12),
    ],
)  # fmt: skip
def test_how_the_barrier_ends(
    monkeypatch: pytest.MonkeyPatch, replies: Sequence[Reply], code: int, requests: int, seconds: float
) -> None:
    monkeypatch.setattr(api_server, "MOST_BYTES", 1000)
    assert _wait(replies) == (code, requests, seconds)


@pytest.mark.parametrize(("gang", "requests"), [("true", 2), ("false", 1), ("False", 1), ("", 2)])
def test_without_gang_allocation_the_framework_is_read_once(gang: str, requests: int) -> None:
    replies = [WAITING] if requests == 1 else [WAITING, COMPLETE]
    assert _wait(replies, GANG_ALLOCATION=gang)[:2] == (PASSES, requests)


def test_without_gang_allocation_errors_of_the_api_are_waited_for_too() -> None:
    assert _wait([Reply(500), HALF, WAITING], GANG_ALLOCATION="false") == (PASSES, 3, 1 + 2)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({}, "namespaces/default/frameworks/one"),
        ({"FC_FRAMEWORK_NAMESPACE": "jobs", "FC_FRAMEWORK_NAME": "two"}, "namespaces/jobs/frameworks/two"),
        ({"FC_FRAMEWORK_NAME": "../a b?c#d"}, "namespaces/default/frameworks/..%2Fa%20b%3Fc%23d"),
    ],
)
def test_the_framework_is_the_one_that_the_pod_belongs_to(environment: Mapping[str, str], path: str) -> None:
    with FaultServer(COMPLETE) as server:
        wait_for_framework(
            {"FC_FRAMEWORK_NAME": "one", "KUBE_APISERVER_ADDRESS": server.url, **environment},
            _missing,
            lambda _: None,
            service_account=Path("/nonexistent"),
        )
    assert server.requests[0].path == f"/apis/frameworkcontroller.microsoft.com/v1/{path}"


@pytest.mark.parametrize("name", ["", "..", "."])
def test_nothing_is_asked_where_no_framework_is_named(name: str) -> None:
    assert _wait([COMPLETE], FC_FRAMEWORK_NAME=name) == (PERMANENT, 0, 0)


@pytest.mark.parametrize("reply", [Reply(401), Reply(403), Reply(404)])
def test_a_message_names_what_is_to_be_mended(reply: Reply) -> None:
    needs = {401: "/account", 403: "frameworks.frameworkcontroller.microsoft.com", 404: "one"}
    with FaultServer(reply) as server, pytest.raises(BarrierFailed) as caught:
        wait_for_framework(
            {"FC_FRAMEWORK_NAME": "one", "KUBE_APISERVER_ADDRESS": server.url},
            _missing,
            lambda _: None,
            service_account=Path("/account"),
        )
    assert needs[reply.status] in str(caught.value)


# Progress


def _waiting(*indexes: int) -> Reply:
    return Reply(body=json.dumps([f"worker-{index}" for index in indexes]).encode())


def test_progress_is_said_when_it_changes() -> None:
    said: list[str] = []
    first, second = _waiting(1, 2), _waiting(2)
    _wait([first, first, first, second, second, Reply(500), Reply(500), second, COMPLETE], said)
    assert ["worker-1" in line for line in said] == [True, False, False, False]
    assert ["worker-2" in line for line in said] == [True, True, False, True]
    assert ["500" in line for line in said] == [False, False, True, False]


def test_progress_says_how_many_of_how_many_and_names_a_few() -> None:
    said: list[str] = []
    _wait([_waiting(*range(1000, 3000)), COMPLETE], said, PAI_TASKS_NUM="4321")
    (line,) = said
    assert "2000 of 4321" in line
    assert [f"worker-{index}" in line for index in (1000, 1004, 1005)] == [True, True, False]
    assert len(line) < 200


def test_a_name_cannot_forge_a_line_of_the_log() -> None:
    said: list[str] = []
    _wait([Reply(body=b'["\\u001b[2Jx\\n"]'), COMPLETE], said)
    assert all(line.isprintable() for line in said)


def test_many_pods_do_not_look_at_the_same_time() -> None:
    pauses = []
    for _ in range(20):
        clock = Clock()
        with FaultServer(WAITING, COMPLETE) as server:
            wait_for_framework(
                {"FC_FRAMEWORK_NAME": "one", "KUBE_APISERVER_ADDRESS": server.url},
                _missing,
                lambda _: None,
                deadline=Deadline(SECONDS, lambda clock=clock: clock.now, clock.sleep),  # type: ignore[misc]
                service_account=Path("/nonexistent"),
            )
        pauses += clock.pauses
    assert len(set(pauses)) == 20
    assert INTERVAL[0] <= min(pauses) <= max(pauses) <= INTERVAL[1]


# Signals

PROGRAM = """
import signal, sys
from pathlib import Path
from pai_openpai.framework_barrier import wait_for_framework

def end(number, frame):
    raise SystemExit(128 + number)

signal.signal(int(sys.argv[1]), end)
environment = {"FC_FRAMEWORK_NAME": "one", "KUBE_APISERVER_ADDRESS": sys.argv[2]}
say = lambda line: print(line, flush=True)
wait_for_framework(environment, lambda _: ["worker-1"], say, service_account=Path("/nonexistent"))
"""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("reply", [WAITING, Reply(raw=b"HTTP/1.1", hang=True)])
def test_a_signal_ends_the_wait_at_once(number: signal.Signals, reply: Reply) -> None:
    """Between two requests, and within one."""
    with FaultServer(reply) as server:
        argv = [sys.executable, "-c", PROGRAM, str(int(number)), server.url]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            if reply is WAITING:
                process.stdout.readline()  # it says for whom it waits
            else:
                assert server.asked.wait(60)
            process.send_signal(number)
            assert process.wait(60) == 128 + number
    assert len(server.requests) == 1
