"""Following the log of a container: its bytes, each once and in order, however often connections break."""

import threading
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pai_kubernetes.api import paths, pod_logs
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.pod_logs import LogStream
from pai_kubernetes.api.times import seconds
from pai_runtime.runs.log_times import Piece
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import api_of, be_quick

KIND = "/api/v1/pods/log"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    be_quick(monkeypatch)


@pytest.fixture
def server(server: ApiServer) -> ApiServer:
    server.put(paths.pods("team-a"), {"metadata": {"name": "pod"}})
    return server


@pytest.fixture
def api(server: ApiServer) -> Api:
    return api_of(server)


def _all(stream: LogStream) -> list[Piece]:
    pieces: list[Piece] = []
    with closing(stream):
        while taken := stream.read(100, wait=True):
            pieces += taken
        assert stream.is_over
    return pieces


def _bytes(pieces: Sequence[Piece]) -> bytes:
    return b"".join(data for _, data in pieces)


def _read(stream: LogStream, size: int) -> bytes:
    """So many bytes, as soon as they have come."""
    data = b""
    while len(data) < size:
        data += _bytes(stream.read(size - len(data), wait=True))
    return data


@pytest.mark.parametrize("follow", [True, False])
def test_a_log_is_read_to_its_end_with_the_times_of_its_lines(
    server: ApiServer,
    api: Api,
    follow: bool,  # noqa: FBT001 - a column of the table
) -> None:
    times = ["2026-05-09T03:32:11Z", "2026-05-09T03:32:11.5Z", "2026-05-09T05:32:12.000000001+02:00"]
    for number, time in enumerate(times):
        server.log("pod", "app", b"line %d\n" % number, time=time)
    server.log("pod", "app", b"no end", time="2026-05-09T03:32:13Z", ended=True)
    assert _all(LogStream(api, "pod", "app", follow=follow)) == [
        (seconds("2026-05-09T03:32:11Z"), b"line 0\n"),
        (seconds("2026-05-09T03:32:11.5Z"), b"line 1\n"),
        (seconds("2026-05-09T03:32:12.000000001Z"), b"line 2\n"),
        (seconds("2026-05-09T03:32:13Z"), b"no end"),
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 2)), max_size=12),
    cuts=st.lists(st.integers(0, 300), max_size=6),
)
def test_nothing_is_lost_or_given_twice_where_connections_break(
    server: ApiServer, api: Api, lines: list[tuple[bytes, int]], cuts: list[int]
) -> None:
    pod = f"pod-{len(server.requests)}"
    server.put(paths.pods("team-a"), {"metadata": {"name": pod}})
    moment, log = 1_700_000_000 * 10**9, b""
    server.log(pod, "app", b"")
    for number, (line, later) in enumerate(lines):
        moment += (0, 7, 10**9)[later] * number
        second, rest = divmod(moment, 10**9)
        time = f"2023-11-14T22:{13 + (second - 1_699_999_980) // 60:02}:{second % 60:02}.{rest:09}Z"
        text = line.replace(b"\n", b"").replace(b"\r", b"") + b"\n"
        server.log(pod, "app", text, time=time)
        log += text
    server.log(pod, "app", b"", ended=True)
    for cut in cuts:
        server.arm(Fault(cut=cut), "get", "pods/log")
    assert _bytes(_all(LogStream(api, pod, "app", follow=True))) == log
    with server.lock:
        server._armed.clear()


def test_a_line_that_is_cut_goes_on_where_it_was(server: ApiServer, api: Api) -> None:
    server.log("pod", "app", b"one\ntw")
    with closing(LogStream(api, "pod", "app", follow=True)) as stream:
        assert _read(stream, 6) == b"one\ntw"
        server.break_streams()
        server.log("pod", "app", b"o\nthree\n", ended=True)
        assert _bytes(_all(stream)) == b"o\nthree\n"


def test_what_was_rotated_away_is_lost_and_nothing_else(server: ApiServer, api: Api) -> None:
    server.log("pod", "app", b"one\ntwo\n")
    with closing(LogStream(api, "pod", "app", follow=True)) as stream:
        assert _read(stream, 8) == b"one\ntwo\n"
        server.rotate_log("pod", "app")
        server.log("pod", "app", b"three\n", ended=True)
        server.break_streams()
        assert _bytes(_all(stream)) == b"three\n"


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("size", [1, 20, 1 << 16])
def test_a_node_s_own_words_are_not_of_the_log(
    server: ApiServer,
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    follow: bool,  # noqa: FBT001 - a column of the table
    size: int,
) -> None:
    monkeypatch.setattr(pod_logs, "_PIECE", size)
    server.remove_container("pod", "app")
    with closing(LogStream(api, "pod", "app", follow=follow)) as stream:
        with pytest.raises(ApiError) as caught:
            stream.read(100, wait=True)
        assert (caught.value.status, stream.read(100, wait=True), stream.is_over) == (404, [], True)


def test_a_task_may_write_the_words_of_a_node(server: ApiServer, api: Api) -> None:
    text = b"unable to retrieve container logs for containerd://1\n"
    server.log("pod", "app", text, ended=True)
    assert _bytes(_all(LogStream(api, "pod", "app", follow=True))) == text


def test_lines_without_a_time_are_given_as_they_are() -> None:
    lines = pod_logs._Lines()
    fed = [*lines.feed(b"some node gives no times\n2026-05-09T03:32:11Z a"), *lines.finish()]
    assert fed == [(None, b"some node gives no times\n"), (seconds("2026-05-09T03:32:11Z"), b"a")]


@pytest.mark.parametrize("fault", [Fault(500), Fault(429), Fault(hang_up=True)])
def test_a_followed_log_gets_over_faults(server: ApiServer, api: Api, fault: Fault) -> None:
    server.log("pod", "app", b"one\n", ended=True)
    server.arm(fault, times=3)
    assert _bytes(_all(LogStream(api, "pod", "app", follow=True))) == b"one\n"


@pytest.mark.parametrize(("pod", "container", "status"), [("pod", "other", 400), ("gone", "app", 404)])
def test_a_log_that_is_not_there_is_told(
    server: ApiServer, api: Api, pod: str, container: str, status: int
) -> None:
    server.log("pod", "app", b"one\n")
    with closing(LogStream(api, pod, container, follow=True)) as stream, pytest.raises(ApiError) as caught:
        stream.read(10, wait=True)
    assert caught.value.status == status


def test_one_that_nobody_reads_waits(server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "MOST_BUFFERED", 1000)
    server.log("pod", "app", b"x" * 99 + b"\n", ended=False)
    for _ in range(200):
        server.log("pod", "app", b"x" * 99 + b"\n")
    server.log("pod", "app", b"", ended=True)
    stream = LogStream(api, "pod", "app", follow=True)
    assert _read(stream, 100)
    assert stream._buffered <= 1100
    assert len(_bytes(_all(stream))) == 200 * 100


def test_the_log_of_a_container_that_goes_on_is_asked_for_again(server: ApiServer, api: Api) -> None:
    runs = threading.Event()
    runs.set()
    server.log("pod", "app", b"one\n")
    with closing(LogStream(api, "pod", "app", follow=True, goes_on=runs.is_set)) as stream:
        assert _read(stream, 4) == b"one\n"
        server.break_streams(None)
        server.wait_for(lambda: server.counts["get", KIND] == 2)
        runs.clear()
        server.log("pod", "app", b"two\n", ended=True)
        assert _bytes(_all(stream)) == b"two\n"


def test_one_that_was_read_to_its_end_goes_on_with_what_came_since(server: ApiServer, api: Api) -> None:
    server.log("pod", "app", b"one\n")
    with closing(LogStream(api, "pod", "app", follow=False)) as stream:
        assert stream.read(100, wait=True)[0][1] == b"one\n"
        assert stream.read(100, wait=True) == []
        server.log("pod", "app", b"two\n", ended=True)
        stream.follow()
        assert stream.read(100, wait=True)[0][1] == b"two\n"


def test_closing_it_ends_a_read_at_once(server: ApiServer, api: Api) -> None:
    server.log("pod", "app", b"one\n")
    stream = LogStream(api, "pod", "app", follow=True)
    assert _read(stream, 4) == b"one\n"
    closer = threading.Thread(target=stream.close)
    closer.start()
    assert stream.read(100, wait=True) == []
    closer.join()
