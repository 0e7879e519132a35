"""The plugin git, when it tries again: what may pass, and how long it waits. No git and no server."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_git.retries import FIRST_PAUSE, LONGEST_PAUSE, asked_pause, is_final, pause
from tests.git_server import Clock, admits


@pytest.mark.parametrize(
    ("words", "passes"),
    [
        ("fatal: unable to access 'https://h/': The requested URL returned error: 429", True),
        ("error: RPC failed; HTTP 503 curl 22 The requested URL returned error: 503", True),
        ("error: RPC failed; HTTP 403 curl 22 … returned error: 403\nfatal: the remote end hung up", False),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", True),
        ("fatal: unable to access 'https://h/': Failed to connect to h port 443: Connection refused", True),
        ("fatal: unable to access 'https://h/': Connection timed out after 300000 milliseconds", True),
        ("fatal: unable to access 'https://h/': Empty reply from server", True),
        ("fatal: GnuTLS recv error (-110): The TLS connection was non-properly terminated.", True),
        ("error: RPC failed; curl 56 Recv failure: Connection reset by peer", True),
        ("error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)", True),
        ("fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF", True),
        ("ssh: connect to host h port 22: Connection timed out\nfatal: Could not read from remote", True),
        ("ssh: Could not resolve hostname h: Temporary failure in name resolution", True),
        ("kex_exchange_identification: Connection closed by remote host", True),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.", False),
        ("Host key verification failed.\nfatal: Could not read from remote repository.", False),
        ("fatal: unable to access 'https://h/': server certificate verification failed.", False),
        ("fatal: repository 'https://h/timed out/early EOF' not found", False),
        ("fatal: unable to access 'https://h/certificate': Connection reset by peer", True),
        ("fatal: write error: No space left on device\nfatal: early EOF", False),
        ("fatal: remote error: upload-pack: not our ref\nfatal: the remote end hung up", False),
        ("error: unknown option `nonsense'", False),
        ("fatal: unable to access 'https://h/': end of response with 87 bytes missing", True),
        ("fatal: unable to access 'https://certificate/': Could not resolve host: certificate.h", True),
        ("fatal: words that no version has had so far", True),
        ("fatal: Remote branch nowhere not found in upstream origin", False),
        ("fatal: couldn't find remote ref nowhere", False),
        ("fatal: Authentication failed for 'https://h/'", False),
        ("fatal: could not read Username for 'https://h/': terminal prompts disabled", False),
        ("fatal: remote error: access denied or repository not exported: /nowhere", False),
        ("fatal: '/nowhere' does not appear to be a git repository", False),
        ("fatal: transport 'file' not allowed", False),
        ("", True),
    ],
)  # fmt: skip
def test_which_failures_may_pass(words: str, passes: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_final(words, "") is not passes


_SENT = "=> Send header: GET /code"


@pytest.mark.parametrize(
    ("trace", "final"),
    [
        (["HTTP/1.1 404 Not Found"], True),
        (["HTTP/2 403", "server: x"], True),
        (["HTTP/1.1 401 Unauthorized"], True),
        (["HTTP/1.1 401 Unauthorized", _SENT], False),
        (["HTTP/1.1 401 Unauthorized", _SENT, "HTTP/1.1 200 OK"], False),
        (["HTTP/1.1 429 Too Many Requests"], False),
        (["HTTP/1.1 408 Request Timeout"], False),
        (["HTTP/1.1 503 Service Unavailable", "retry-after: 404"], False),
        (["HTTP/1.1"], False),
        ([_SENT], False),
    ],
)
def test_whatever_git_says_the_last_answer_tells_whether_it_is_final(
    trace: list[str],
    final: bool,  # noqa: FBT001 - a column of the table
) -> None:
    lines = [line if line.startswith("=>") else f"<= Recv header: {line}" for line in trace]
    text = "".join(f"12:00:00.1 http.c:725 {line}\n" for line in lines)
    assert is_final("fatal: words of a later version", text) is final


@pytest.mark.parametrize(
    "line", ["== Info:   Trying 10.0.0.1:80...", "<= Recv header: x", "<= Recv header: HTTP/", "'"]
)
def test_a_long_trace_is_read_in_time_proportional_to_its_length(line: str) -> None:
    """Which a test can tell from one that grows with its square: that would take many minutes."""
    trace = f"12:00:00.1 http.c:725 {line}\n" * 20_000
    assert asked_pause(trace, now=100) == 0
    assert is_final(trace, trace) is False


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["HTTP/1.1 429 Too Many Requests", "Retry-After: 12"], 12),
        (["HTTP/2 429", "retry-after: 12"], 12),
        (["HTTP/1.1 429", "Retry-After: Thu, 01 Jan 1970 00:02:00 GMT"], 20),
        (["HTTP/1.1 429", "Retry-After: Thu, 01 Jan 1970 00:01:00 GMT"], 0),
        (["HTTP/1.1 429", "Retry-After: soon"], 0),
        (["HTTP/1.1 429", "Retry-After: -5"], 0),
        (["HTTP/1.1 429", "Retry-After: \u00b2"], 0),
        (["HTTP/1.1 429", "Retry-After:"], 0),
        (["HTTP/1.1 503", "Retry-After: 12", "HTTP/1.1 503", "Server: x"], 0),
        (["HTTP/1.1 200 Connection established", "HTTP/1.1 503", "Retry-After: 3"], 3),
        ([], 0),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: list[str], seconds: float) -> None:
    trace = "".join(f"12:00:00.1 http.c:725 <= Recv header: {header}\n" for header in headers)
    assert asked_pause(trace, now=100) == seconds


@given(
    failures=st.integers(1, 10_000),
    least=st.floats(0, 1e6),
    left=st.floats(-10, 1e6),
    part=st.floats(0, 1),
)
def test_a_pause_is_what_the_server_asks_and_a_random_part_of_a_bound_that_doubles(
    failures: int, least: float, left: float, part: float
) -> None:
    bounds: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        bounds.append((low, high))
        return low + part * (high - low)

    seconds = pause(failures, least, left, draw)
    if seconds is None:
        assert left <= 0 or least > left
        return
    assert bounds == [(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 100)))]
    assert least <= seconds <= left
    assert seconds in (left, least + part * bounds[0][1])


def test_the_budget_counts_from_the_first_failure_and_is_used_to_its_end() -> None:
    clock = Clock()
    retries = clock.retries(budget=100)
    clock.now += 5000
    said: list[str] = []
    while retries.wait(0, said.append):
        clock.now += 0.5
    assert 90 < sum(clock.pauses) <= 100
    assert said[-1].startswith("giving up after")


@pytest.mark.parametrize("asks", [0, 1, 30])
@pytest.mark.parametrize("seed", range(5))
def test_two_hundred_clients_of_a_server_that_allows_ten_a_second_all_get_through(
    seed: int, asks: float
) -> None:
    """In virtual time; three requests each, of which any may be refused."""
    draw = random.Random(seed).uniform  # noqa: S311 - the same run each time
    now = 0.0
    admit = admits(10, lambda: now)
    waiting = [(0.0, client) for client in range(200)]
    done, failures, since = [0] * 200, [0] * 200, [0.0] * 200
    while waiting:
        now, client = min(waiting)
        waiting.remove((now, client))
        if admit():
            done[client] += 1
            if done[client] < 3:
                waiting.append((now + 0.05, client))
            continue
        done[client] = 0
        failures[client] += 1
        since[client] = since[client] or now or 1e-9
        seconds = pause(failures[client], asks, since[client] + 600 - now, draw)
        assert seconds is not None, f"client {client} gave up at {now}"
        waiting.append((now + seconds, client))
    assert now < 600
