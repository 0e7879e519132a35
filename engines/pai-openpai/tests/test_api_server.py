"""The client of the Kubernetes API: what it asks for, with which login, and what it makes of each answer.

The server is a stand-in, for no cluster can be had here; what it has to be is little: one GET.
"""

import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_openpai import api_server
from pai_openpai.api_server import ApiError, get_object
from tests.certificates import Certificate, authority, server_certificate
from tests.fault_server import FaultServer, Reply

PATH = "/apis/example/v1/things/one"
TOKEN = "secret.token-of_the.account"
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def _hours() -> float:
    return 3600


def _ticks() -> Callable[[], float]:
    """A clock of which each look takes a second, and of which ten are left."""
    ticks = count()
    return lambda: 10.0 - next(ticks)


def _ask(
    address: str,
    account: Path = Path("/nonexistent"),
    left: Callable[[], float] = _hours,
) -> bytes:
    return get_object({"KUBE_APISERVER_ADDRESS": address}, PATH, left, account)


def _in_cluster(server: FaultServer) -> Mapping[str, str]:
    return {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": str(server.port)}


def _account(folder: Path, issuer: Certificate | None = None, token: str = TOKEN) -> Path:
    """What Kubernetes mounts in a pod: links to files, which it replaces all at once."""
    data = folder / "..data"
    data.mkdir()
    (data / "token").write_text(token)
    (folder / "token").symlink_to("..data/token")
    if issuer:
        (data / "ca.crt").write_bytes(issuer.pem)
        (folder / "ca.crt").symlink_to("..data/ca.crt")
    return folder


def _error(*args: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        _ask(*args)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("status", "headers", "permanent", "pause"),
    [
        (400, {}, True, 0),
        (401, {}, True, 0),
        (403, {"Retry-After": "7"}, True, 0),
        (404, {}, True, 0),
        (405, {}, True, 0),
        (408, {}, False, 0),
        (429, {"Retry-After": "7"}, False, 7),
        (429, {"Retry-After": "soon"}, False, 0),
        (500, {}, False, 0),
        (503, {"Retry-After": "7"}, False, 7),
        (599, {}, False, 0),
        (204, {}, True, 0),
    ],
)
def test_which_statuses_may_pass(
    status: int,
    headers: Mapping[str, str],
    permanent: bool,  # noqa: FBT001 - a column of the table
    pause: float,
) -> None:
    with FaultServer(Reply(status, headers=headers)) as server:
        error = _error(server.url)
    assert (error.status, error.permanent, error.pause) == (status, permanent, pause)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with FaultServer(Reply()) as other, FaultServer(Reply(status, headers={"Location": other.url})) as server:
        error = _error(server.url)
    assert (error.status, error.permanent, other.requests) == (status, True, [])


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b""),
        Reply(raw=HEAD),
        Reply(raw=HEAD + b"Content-Length: 10\r\n\r\n{}"),
        Reply(raw=CHUNKED + b"2\r\n{}\r\n"),
        Reply(raw=CHUNKED + b"5\r\n{}"),
        Reply(raw=CHUNKED + b"two\r\n{}\r\n0\r\n\r\n"),
        Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
        Reply(raw=HEAD + b"A: " + 70_000 * b"a"),
        Reply(raw=HEAD + 200 * b"A: a\r\n" + b"\r\n"),
        # Too slow: each piece takes one of ten seconds.
        Reply(raw=HEAD, hang=True),
        Reply(raw=HEAD, endless=b"A"),
        Reply(raw=HEAD + b"Content-Length: 1000000000000\r\n\r\n", endless=b"{}"),
        Reply(raw=CHUNKED, endless=b"1\r\n{\r\n"),
    ],
)
def test_an_answer_that_is_not_whole_in_time_may_pass(reply: Reply) -> None:
    ticks = _ticks()
    with FaultServer(reply) as server:
        error = _error(server.url, Path("/nonexistent"), lambda: min(ticks(), 0.5))
    assert (error.status, error.permanent) == (0, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=10_001 * b"1"),
        Reply(raw=HEAD + b"\r\n", endless=1000 * b"1"),
        Reply(raw=HEAD + b"Content-Length: 1000000000000000\r\n\r\n", endless=1000 * b"1"),
        Reply(raw=CHUNKED, endless=b"3e8\r\n" + 1000 * b"1" + b"\r\n"),
        Reply(raw=CHUNKED + b"-1\r\n", endless=1000 * b"1"),
    ],
)
def test_an_answer_that_is_too_large_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setattr(api_server, "MOST_BYTES", 10_000)
    with FaultServer(reply) as server:
        error = _error(server.url)
    assert (error.status, error.permanent) == (0, True)


@pytest.mark.parametrize("raw", [CHUNKED + b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\nA: b\r\n\r\n", HEAD + b"\r\n{}"])
def test_an_answer_may_have_no_length(raw: bytes) -> None:
    with FaultServer(Reply(raw=raw)) as server:
        assert _ask(server.url) == b"{}"


def test_a_server_that_accepts_no_connection_or_says_nothing_may_do_so_later(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for scheme in ("http", "https"):
            error = _error(f"{scheme}://127.0.0.1:{port}", tmp_path, lambda: 0.05)
            assert (error.status, error.permanent) == (0, False)
    error = _error(f"http://127.0.0.1:{port}")
    assert (error.status, error.permanent) == (0, False)


def test_without_any_time_nothing_is_asked() -> None:
    with FaultServer(Reply()) as server:
        assert not _error(server.url, Path("/nonexistent"), lambda: 0).permanent
    assert not server.requests


def test_what_the_server_says_in_words_is_passed_on_without_control_characters() -> None:
    body = b'{"kind": "Status", "message": "no \\u001b[2J ' + 1000 * b"x" + b'"}'
    with FaultServer(Reply(403, body)) as server:
        message = str(_error(server.url))
    assert "no \\x1b[2J xxx" in message
    assert len(message) < 500


_PIECES = [
    *(b"HTTP/1.1 ", b"200 ", b"404", b"\r\n", b"Content-Length: ", b"2", b"{}", b"-1", b": "),
    *(b"Transfer-Encoding: chunked\r\n", b"Retry-After: ", b'{"message": ', b'"x"}'),
]


@pytest.fixture(scope="module")
def any_server() -> Iterator[FaultServer]:
    with FaultServer(Reply()) as server:
        yield server


@given(st.lists(st.sampled_from(_PIECES) | st.binary(max_size=20), max_size=15).map(b"".join))
def test_no_answer_of_a_server_leads_to_another_error(any_server: FaultServer, raw: bytes) -> None:
    any_server.replies = [Reply(raw=raw)]
    with suppress(ApiError):
        _ask(any_server.url, Path("/nonexistent"), lambda: 5)


# Login


@pytest.fixture(scope="module")
def cluster() -> Certificate:
    return authority("cluster")


def test_the_token_is_read_anew_for_each_request(tmp_path: Path) -> None:
    issuer = authority("cluster")
    certificate = server_certificate(issuer, ["127.0.0.1"]).write(tmp_path / "server.pem")
    account = tmp_path / "account"
    account.mkdir()
    _account(account, issuer, "first\n")
    with FaultServer(Reply(), certificate=certificate) as server:
        environment = {**_in_cluster(server), "KUBE_APISERVER_ADDRESS": "http://192.0.2.1"}
        assert get_object(environment, PATH, _hours, account) == b"{}"
        (account / "..data" / "token").write_text("second")
        assert get_object(environment, PATH, _hours, account) == b"{}"
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer first",
        "Bearer second",
    ]
    assert {request.path for request in server.requests} == {PATH}


def test_without_a_token_the_configured_address_is_asked_without_login(tmp_path: Path) -> None:
    with FaultServer(Reply()) as server:
        environment = {
            "KUBE_APISERVER_ADDRESS": f"{server.url}/prefix/",
            "KUBERNETES_SERVICE_HOST": "192.0.2.1",
        }
        assert get_object(environment, PATH, _hours, tmp_path) == b"{}"
    (request,) = server.requests
    assert request.path == f"/prefix{PATH}"
    assert "Authorization" not in request.headers


def test_a_server_that_repeats_the_token_does_not_bring_it_into_the_log(
    tmp_path: Path, cluster: Certificate
) -> None:
    certificate = server_certificate(cluster, ["127.0.0.1"]).write(tmp_path / "server.pem")
    body = f'{{"message": "no login for Bearer {TOKEN}"}}'.encode()
    with (
        FaultServer(Reply(401, body), certificate=certificate) as server,
        pytest.raises(ApiError, match="no login") as caught,
    ):
        get_object(_in_cluster(server), PATH, _hours, _account(tmp_path, cluster))
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("token", ["", "\n", "two words", "two\r\nX-Header: lines", "\x00", "é", "\udcff"])
def test_what_is_no_token_is_refused_and_not_repeated(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_bytes(token.encode("utf-8", "surrogateescape"))
    with FaultServer(Reply()) as server, pytest.raises(ApiError) as caught:
        get_object(_in_cluster(server), PATH, _hours, tmp_path)
    assert caught.value.permanent
    assert str(tmp_path / "token") in str(caught.value)
    assert not token.strip() or token not in str(caught.value).replace(str(tmp_path), "")
    assert not server.requests


def test_a_token_that_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    with pytest.raises(ApiError) as caught:
        get_object({}, PATH, _hours, tmp_path)
    assert caught.value.permanent


@pytest.mark.parametrize(
    "environment",
    [{}, {"KUBERNETES_SERVICE_HOST": "192.0.2.1"}, {"KUBERNETES_SERVICE_PORT": "443"}],
)
@pytest.mark.parametrize("has_token", [True, False])
def test_an_address_that_is_not_set_is_named(
    tmp_path: Path,
    environment: Mapping[str, str],
    has_token: bool,  # noqa: FBT001 - a column of the table
) -> None:
    if has_token:
        _account(tmp_path)
    with pytest.raises(ApiError, match="KUBE_APISERVER_ADDRESS") as caught:
        get_object(environment, PATH, _hours, tmp_path)
    assert caught.value.permanent


@pytest.mark.parametrize(
    "address",
    [
        "https://",
        "http://:8080",
        "ftp://10.0.0.1",
        "http://10.0.0.1:port",
        "http://10.0.0.1:99999",
        "http://[::1",
        "http://user:password@10.0.0.1",
        "http://10.0.0.1/?query",
        "http://10.0.0.1/#fragment",
        "http://10.0.0.1/\r\nX-Header: line",
        "http://a host",
        "/path",
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(address: str) -> None:
    error = _error(address)
    assert error.permanent
    assert "password" not in str(error)


def test_a_name_that_cannot_be_one_is_no_bug() -> None:
    assert not _error(f"http://{'a' * 64}.example").status


def test_an_address_may_have_no_scheme_and_be_of_either_family() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(FaultServer(Reply(), host="127.0.0.1"))]
        with suppress(OSError):  # this machine may have no IPv6
            servers.append(stack.enter_context(FaultServer(Reply(), host="::1")))
        for server in servers:
            assert _ask(server.url.removeprefix("http://")) == b"{}"
            assert server.requests[0].headers["Host"] == server.url.removeprefix("http://")


# TLS


@pytest.mark.needs("IPv6")
def test_a_cluster_on_ipv6_is_found_by_its_service(tmp_path: Path, cluster: Certificate) -> None:
    certificate = server_certificate(cluster, ["::1"]).write(tmp_path / "server.pem")
    with FaultServer(Reply(), host="::1", certificate=certificate) as server:
        assert get_object(_in_cluster(server), PATH, _hours, _account(tmp_path, cluster)) == b"{}"
    assert server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("has_token", [True, False])
def test_an_authority_that_another_has_issued_is_trusted_if_it_is_in_the_file(
    tmp_path: Path,
    cluster: Certificate,
    has_token: bool,  # noqa: FBT001 - a column of the table
) -> None:
    below = authority("below", cluster)
    certificate = server_certificate(below, ["127.0.0.1"]).write(tmp_path / "server.pem", below)
    account = _account(tmp_path, below)
    if not has_token:
        (account / "token").unlink()
    with FaultServer(Reply(), certificate=certificate) as server:
        environment = {**_in_cluster(server), "KUBE_APISERVER_ADDRESS": server.url}
        assert get_object(environment, PATH, _hours, account) == b"{}"


@pytest.mark.parametrize("fault", ["another authority", "another host", "expired", "self-issued"])
@pytest.mark.parametrize("has_token", [True, False])
def test_a_server_whose_certificate_is_wrong_gets_no_token(
    tmp_path: Path,
    cluster: Certificate,
    fault: str,
    has_token: bool,  # noqa: FBT001 - a column of the table
) -> None:
    host = "127.0.0.2" if fault == "another host" else "127.0.0.1"
    issuer = authority("cluster") if fault == "another authority" else cluster
    made = server_certificate(issuer, [host], expired=fault == "expired")
    certificate = (authority("127.0.0.1") if fault == "self-issued" else made).write(tmp_path / "server.pem")
    account = _account(tmp_path, cluster)
    if not has_token:
        (account / "token").unlink()
    with FaultServer(Reply(), certificate=certificate) as server, pytest.raises(ApiError) as caught:
        get_object({**_in_cluster(server), "KUBE_APISERVER_ADDRESS": server.url}, PATH, _hours, account)
    assert (caught.value.status, caught.value.permanent, server.requests) == (0, True, [])


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_token_is_sent_to_nobody_if_the_clusters_certificates_are_missing(
    tmp_path: Path, cluster: Certificate, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the system would trust the server."""
    system = tmp_path / "system.pem"
    system.write_bytes(cluster.pem)
    monkeypatch.setenv(ssl.get_default_verify_paths().openssl_cafile_env, str(system))
    certificate = server_certificate(cluster, ["127.0.0.1"]).write(tmp_path / "server.pem")
    account = _account(tmp_path)
    if content is not None:
        (account / "ca.crt").write_bytes(content)
    with FaultServer(Reply(), certificate=certificate) as server:
        assert _ask(server.url) == b"{}"
        with pytest.raises(ApiError) as caught:
            get_object(_in_cluster(server), PATH, _hours, account)
    assert caught.value.permanent
    assert str(account / "ca.crt") in str(caught.value)
    assert len(server.requests) == 1


def test_tls_and_none_do_not_go_together(tmp_path: Path, cluster: Certificate) -> None:
    certificate = server_certificate(cluster, ["127.0.0.1"]).write(tmp_path / "server.pem")
    with FaultServer(Reply()) as plain, FaultServer(Reply(), certificate=certificate) as encrypted:
        assert not _error(plain.url.replace("http:", "https:")).status
        assert not _error(encrypted.url.replace("https:", "http:")).status
    assert not plain.requests + encrypted.requests
