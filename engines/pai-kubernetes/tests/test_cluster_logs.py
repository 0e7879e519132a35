"""The logs of tasks on a cluster: byte for byte, over containers and connections that end."""

import errno
import threading
import time
from collections.abc import Iterator

import pytest

from pai_kubernetes.api.pod_logs import MOST_BUFFERED
from pai_kubernetes.run import logs
from pai_kubernetes.run.reader import Reader
from pai_runtime.runs import logs_at_once
from pai_runtime.runs.reader import LogReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal.following import follow
from pai_runtime.terminal.task_logs import CannotReadLog, WantedLogs, print_logs
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import PlayedCluster, PlayedView, be_quick
from tests.kubernetes.run_objects import LATER, NAME, running, terminated
from tests.support import until

_KIND = "/api/v1/pods/log"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    be_quick(monkeypatch)
    with ApiServer() as started:
        yield started
        while _READERS:
            _READERS.pop().close()


_READERS: list[Reader] = []


def _opened(cluster: PlayedCluster, *, again: bool = False) -> tuple[Reader, tuple[RunTask, ...]]:
    """A reader that has asked for the run; `again`: twice, so that it watches."""
    reader = Reader(cluster.api, NAME, "lab")
    _READERS.append(reader)
    run = reader.run()
    run = reader.run() if again else run
    assert isinstance(run, Run)
    return reader, run.tasks


def _read(log: LogReader, size: int) -> bytes:
    """So many bytes, when they have come."""
    data, end = b"", time.monotonic() + 60
    while len(data) < size and time.monotonic() < end:
        data += log.read(1 << 20) or _wait()
    return data


def _wait() -> bytes:
    time.sleep(0.01)
    return b""


def test_the_log_of_a_task_that_has_ended_is_read_to_its_end(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    pod = cluster.pod(status=terminated(0))
    text = b"one\r\n\x1b[31mtwo\x00\n\n" + b"x" * 100_000 + b"\nno newline"
    server.log(pod, "app", text, ended=True)
    reader, tasks = _opened(cluster)
    log = reader.log(tasks[0], "user")
    assert log.size() >= len(text)
    assert log.read(3) == b"one"
    assert b"one" + _read(log, len(text) - 3) == text
    assert log.read(100) == b""
    log.close()


def test_each_line_has_the_time_at_which_it_was_written(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    server.log(cluster.pod(status=terminated(0)), "app", b"a\nb\n", ended=True)
    reader, tasks = _opened(cluster)
    pieces = [piece for _ in range(3) for piece in reader.log(tasks[0], "user").read_timed(100)]
    assert all(moment and abs(moment - time.time()) < 3600 for moment, _ in pieces)


def test_a_task_without_a_container_that_has_started_has_no_log(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    cluster.pod()
    reader, tasks = _opened(cluster)
    assert reader.log(tasks[0], "user").read(100) == b""
    assert reader.log(tasks[1], "user").tail(100) == b""
    assert server.counts["get", _KIND] == 0


def test_the_runtimes_log_is_that_of_the_init_container_and_then_of_the_sidecar(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    status = terminated(0)
    status["initContainerStatuses"] = [
        {"name": name, "state": {"terminated": {"exitCode": 0}}} for name in ("init", "runtime-log")
    ]
    pod = cluster.pod(status=status)
    server.log(pod, "init", b"init\n", ended=True)
    server.log(pod, "runtime-log", b'log\n[pai-runtime variables] {"a": 1}\nlast\n', ended=True)
    reader, tasks = _opened(cluster)
    assert _read(reader.log(tasks[0], "runtime"), 14) == b"init\nlog\nlast\n"
    another, _ = _opened(cluster)
    assert another.log(tasks[0], "runtime").tail(100) == b"log\nlast\n"


def test_what_a_command_writes_is_shown_even_if_it_looks_like_variables(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    text = b"[pai-runtime variables] {}\n"
    server.log(cluster.pod(status=terminated(0)), "app", text, ended=True)
    reader, tasks = _opened(cluster)
    assert _read(reader.log(tasks[0], "user"), len(text)) == text


def test_a_log_is_read_as_it_was_and_then_followed(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    pod = cluster.pod(status=running())
    server.log(pod, "app", b"before\npart")
    reader, tasks = _opened(cluster)
    log = reader.log(tasks[0], "user")
    assert _read(log, 11) == b"before\npart"
    assert log.read(100) == b""
    reader.run()
    server.log(pod, "app", b" of a line\nafter\n", ended=True)
    assert _read(log, 17) == b" of a line\nafter\n"
    log.close()


def test_a_log_is_followed_over_connections_that_break(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    pod = cluster.pod(status=running())
    reader, tasks = _opened(cluster, again=True)
    log = reader.log(tasks[0], "user")
    seen = b""
    server.log(pod, "app", b"0\n")
    for number in range(1, 5):
        seen += _read(log, 2)
        server.break_streams()
        server.log(pod, "app", f"{number}\n".encode())
    server.log(pod, "app", b"end\n", ended=True)
    seen += _read(log, 6)
    assert seen == b"0\n1\n2\n3\n4\nend\n"
    log.close()


def test_a_task_that_is_tried_again_is_followed_into_its_next_pod(server: ApiServer) -> None:
    cluster = PlayedCluster(server, retries=1)
    first = cluster.pod(status=terminated(3))
    server.log(first, "app", b"first\n", ended=True)
    reader, tasks = _opened(cluster, again=True)
    log = reader.log(tasks[0], "user")
    assert _read(log, 6) == b"first\n"
    second = cluster.pod(status=running(), failures=1, created=LATER)
    server.log(second, "app", b"second\n")
    assert _read(log, 7) == b"second\n"
    log.close()
    assert _read(reader.log(tasks[0], "user", 0), 6) == b"first\n"
    assert _read(reader.log(tasks[0], "user", 1), 7) == b"second\n"


def test_a_pod_that_failed_before_its_command_started_is_passed_for_the_next_one(server: ApiServer) -> None:
    cluster = PlayedCluster(server, retries=1)
    first = cluster.pod(
        status={
            "phase": "Failed",
            "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}],
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 1}}}],
        }
    )
    server.log(first, "init", b"init 1\n", ended=True)
    reader, tasks = _opened(cluster, again=True)
    log, runtime_log = reader.log(tasks[0], "user"), reader.log(tasks[0], "runtime")
    assert (log.read(100), _read(runtime_log, 7)) == (b"", b"init 1\n")
    assert log.is_at_end()
    second = cluster.pod(status=running(), failures=1, created=LATER)
    server.log(second, "app", b"second\n")
    server.log(second, "init", b"init 2\n", ended=True)
    assert (_read(log, 7), _read(runtime_log, 7)) == (b"second\n", b"init 2\n")
    log.close()
    runtime_log.close()


def test_after_a_restart_of_the_job_the_last_log_is_shown_and_an_earlier_one_is_said_to_be_gone(
    server: ApiServer,
) -> None:
    cluster = PlayedCluster(server)
    cluster.change(restarts=1)
    pod = cluster.pod(status=running(), restart=1)
    server.log(pod, "app", b"second\n")
    reader, tasks = _opened(cluster)
    assert tasks[0].retries == 1
    assert _read(reader.log(tasks[0], "user"), 7) == b"second\n"
    with pytest.raises(OSError, match="attempt 0") as raised:
        reader.log(tasks[0], "user", 0).read(10)
    assert raised.value.errno == errno.ENODATA


def test_of_several_tasks_those_logs_are_printed_whose_pods_are_left_and_the_others_are_named(
    server: ApiServer, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = PlayedCluster(server, {"worker": 4}, retries=1)
    for index in (1, 3):
        pod = cluster.pod(index=index, status=terminated(3))
        server.log(pod, "app", f"first {index}\n".encode(), ended=True)
    for index in range(4):
        cluster.pod(index=index, status=running(), failures=1, created=LATER)
    reader, tasks = _opened(cluster)
    for tail in (None, 5):
        wanted = WantedLogs("user", 0, tail, None, prefixed=True, timestamps=False, follow=False)
        with pytest.raises(CannotReadLog, match=r"^worker/0, worker/2: .*attempt 0"):
            print_logs(reader, tasks, wanted)
        assert capfd.readouterr().out == "worker/1 | first 1\nworker/3 | first 3\n"


def test_a_log_that_may_not_be_read_says_which_right_is_missing(server: ApiServer) -> None:
    server.forbidden.add(("get", "pods/log"))
    cluster = PlayedCluster(server)
    cluster.pod(status=terminated(0))
    reader, tasks = _opened(cluster)
    with pytest.raises(OSError, match="log"):
        reader.log(tasks[0], "user").read(10)


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("gone", ["pod", "container"])
def test_a_log_that_is_gone_is_said_to_be_gone_and_its_tail_is_empty(
    server: ApiServer,
    gone: str,
    is_live: bool,  # noqa: FBT001 - a column of the table
) -> None:
    cluster = PlayedCluster(server)
    pod = cluster.pod(status=terminated(0))
    reader, tasks = _opened(cluster, again=is_live)
    if gone == "container":
        server.remove_container(pod, "app")
    else:
        server.arm(Fault(404, reason="NotFound"), "get", "pods/log", times=9)
    assert reader.log(tasks[0], "user").tail(100) == b""
    log = reader.log(tasks[0], "user")
    with pytest.raises(OSError, match="gone") as raised:
        _read(log, 10)
    assert raised.value.errno == errno.ENODATA
    assert (log.read(10), log.is_at_end()) == (b"", True)


def test_what_is_left_of_the_runtimes_log_is_read_before_it_is_said_that_some_is_gone(
    server: ApiServer,
) -> None:
    cluster = PlayedCluster(server)
    states = {"terminated": {"exitCode": 0}}
    status = {
        **terminated(0),
        "initContainerStatuses": [{"name": name, "state": states} for name in ("init", "runtime-log")],
    }
    pod = cluster.pod(status=status)
    server.remove_container(pod, "init")
    server.log(pod, "runtime-log", b"log\n", ended=True)
    reader, tasks = _opened(cluster)
    log = reader.log(tasks[0], "runtime")
    assert _read(log, 4) == b"log\n"
    with pytest.raises(OSError, match="gone"):
        log.read(10)


def test_the_log_of_a_node_that_is_not_reached_is_tried_again_and_said_not_to_be_readable_now(
    server: ApiServer,
) -> None:
    cluster = PlayedCluster(server)
    server.lost_nodes.add("node-1")
    server.log(cluster.pod(status=running()), "app", b"hello\n")
    reader, tasks = _opened(cluster, again=True)
    log = reader.log(tasks[0], "user")
    with pytest.raises(OSError, match="log") as raised:
        _read(log, 6)
    assert raised.value.errno == errno.EAGAIN
    server.lost_nodes.clear()
    until(lambda: _read_if_possible(log) == b"hello\n")


def test_who_follows_logs_is_told_once_that_a_node_is_not_reached_and_gets_all_of_it_then(
    server: ApiServer, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = PlayedCluster(server, {"worker": 1})
    server.lost_nodes.add("node-1")
    pod = cluster.pod(status=running())
    server.log(pod, "app", b"hello\n")
    reader, tasks = _opened(cluster, again=True)

    def recover() -> None:
        server.wait_for(lambda: server.counts["get", _KIND] >= 200)
        server.lost_nodes.clear()
        server.log(pod, "app", b"bye\n", ended=True)
        cluster.pod(status=terminated(0))
        cluster.end("Completed")

    recovering = threading.Thread(target=recover)
    recovering.start()
    print_logs(
        reader, tasks, WantedLogs("user", None, None, None, prefixed=False, timestamps=False, follow=True)
    )
    recovering.join()
    printed = capfd.readouterr()
    assert printed.out == "hello\nbye\n"
    assert len(printed.err.splitlines()) == 1


def _read_if_possible(log: LogReader) -> bytes:
    try:
        return log.read(100)
    except OSError:
        return b""


def test_not_more_logs_are_followed_at_once_than_there_may_be_threads(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_at_once, "MOST_AT_ONCE", 2)
    monkeypatch.setattr("pai_runtime.terminal.following._REST_OF_RUN", 0.0)  # they do not end
    cluster = PlayedCluster(server, {"worker": 4})
    for index in range(4):
        server.log(cluster.pod(index=index, status=running()), "app", b"hello\n")
    reader = Reader(cluster.api, NAME, "lab")
    opened: dict[str, LogReader] = {}
    read: dict[str, bytes] = {}

    def script(run: Run) -> None:
        for task in run.tasks:
            log = opened.setdefault(task.name, reader.log(task, "user"))
            read[task.name] = read.get(task.name, b"") + log.read(100)
        if sum(map(bool, read.values())) == 2 and view.said:
            cluster.end("Completed")

    view = PlayedView(script)
    follow(reader, view)
    assert sum(each.query.get("container") == "app" for each in server.requests) == 2
    assert len(view.said) == 1
    assert f"logs {NAME}" in view.said[0]


def test_ends_of_logs_are_not_asked_for_without_bound(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_TAILS", 3)
    cluster = PlayedCluster(server, {"worker": 10})
    for index in range(10):
        server.log(cluster.pod(index=index, status=running()), "app", b"one\nlast\n")
    reader, tasks = _opened(cluster)
    found = [reader.log(task, "user").tail(5) for task in tasks]
    assert found == [b"last\n"] * 3 + [b""] * 7
    assert [reader.log(task, "user").tail(5) for task in tasks] == found
    assert server.counts["get", _KIND] == 3


@pytest.mark.parametrize("endless", [b"y" * 1000, b"2026-01-02T03:04:05Z \n" * 50])
def test_a_stream_without_end_does_not_fill_the_memory(server: ApiServer, endless: bytes) -> None:
    cluster = PlayedCluster(server)
    server.log(cluster.pod(status=running()), "app", b"x")
    server.arm(Fault(endless=endless), "get", "pods/log")
    reader, tasks = _opened(cluster, again=True)
    log = reader.log(tasks[0], "user")
    assert len(_read(log, 100_000)) >= 100_000
    assert isinstance(log, logs.TaskLog)
    stream = log._stream
    assert stream is not None
    until(lambda: stream._buffered >= MOST_BUFFERED)
    assert stream._buffered <= 2 * MOST_BUFFERED
    assert len(stream._pieces) <= MOST_BUFFERED // 100  # each takes about so many bytes beside its text
    log.close()
