"""What is fetched from a server: all of what it has or an error that says why not, soon and safely."""

import base64
import datetime as dt
import gc
import socket
import subprocess
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.util import connection

from pai_definitions.fetching import Fetcher
from pai_definitions.model import Unreachable
from pai_document.url import shown_url, split_url
from pai_network import tls
from pai_network.answer import NoAnswer
from pai_network.client import Bounds, Client, HttpRequest
from pai_runtime import __version__
from pai_runtime.definitions import NoDefinition
from tests.certificates import authority, server_certificate
from tests.fault_server import FaultServer, Reply
from tests.git_server import Clock
from tests.proxy_server import ProxyServer
from tests.support import ROOT

TOKEN = "tok-5ecret"
GOOD = Reply(body=b"name: mnist\n")
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TRIES = 4
NAME = "definitions.test"
LINK_LOCAL = "169.254.7.7"


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: what a client is to trust, certificates of servers, and some that are not to be trusted."""
    folder = tmp_path_factory.mktemp("certificates")
    root, hosts = authority("root"), [NAME, "127.0.0.1"]
    root.write(folder / "root.pem")
    server_certificate(root, hosts).write(folder / "server.pem")
    server_certificate(root, hosts, expired=True).write(folder / "expired.pem")
    server_certificate(root, ["other.test"]).write(folder / "other.pem")
    server_certificate(authority("stranger"), hosts).write(folder / "stranger.pem")
    return folder


@pytest.fixture
def trusted(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "root.pem"))
    tls.system_trust.cache_clear()
    yield certificates
    tls.system_trust.cache_clear()


def fetcher(clock: Clock | None = None, seconds: float = 60) -> Fetcher:
    """One for which pauses take no time."""
    clock = clock or Clock()
    return Fetcher(seconds=seconds, now=lambda: clock.now, sleep=clock.sleep)


def failure(fetch: Callable[[], bytes]) -> NoDefinition:
    """Why it failed; nothing of that may repeat what is secret."""
    with pytest.raises(NoDefinition) as caught:
        fetch()
    shown = "".join(traceback.format_exception(caught.value))
    assert TOKEN not in shown
    assert "query" not in str(caught.value)
    return caught.value


def test_content_comes_as_it_is_and_the_server_learns_who_asks() -> None:
    with FaultServer(GOOD) as server:
        assert fetcher().get(f"{server.url}/a.yaml?query=1", token=TOKEN) == GOOD.body
        assert fetcher().get(server.url) == GOOD.body
    with_token, without = server.requests
    assert with_token.path == "/a.yaml?query=1"
    assert with_token.headers["User-Agent"] == f"pai-runtime/{__version__}"
    assert with_token.headers["Accept-Encoding"] == "identity"
    assert with_token.headers["Authorization"] == f"Bearer {TOKEN}"
    assert without.path == "/"
    assert "Authorization" not in without.headers


@pytest.mark.parametrize(
    ("status", "code", "tries"),
    [
        (401, "definition-forbidden", 1),
        (403, "definition-forbidden", 1),
        (404, "no-such-definition", 1),
        (410, "no-such-definition", 1),
        (204, "definition-unavailable", 1),
        (206, "definition-unavailable", 1),
        (304, "definition-unavailable", 1),
        (400, "definition-unavailable", 1),
        (429, "definition-unavailable", TRIES),
        (500, "definition-unavailable", TRIES),
        (503, "definition-unavailable", TRIES),
    ],
)
def test_each_status_has_its_error_and_only_what_may_pass_is_tried_again(
    status: int, code: str, tries: int
) -> None:
    with FaultServer(Reply(status, b"")) as server:
        error = failure(lambda: fetcher().get(f"{server.url}/a.yaml?query=1", token=TOKEN))
    assert error.code == code
    assert f"{server.url}/a.yaml: " in str(error)
    assert str(status) in str(error)
    assert len(server.requests) == tries
    assert isinstance(error, Unreachable) == (tries > 1)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_fault_that_passes_is_none(status: int) -> None:
    clock = Clock()
    with FaultServer(Reply(status), Reply(status), GOOD) as server:
        assert fetcher(clock).get(server.url) == GOOD.body
    assert len(clock.pauses) == 2
    assert clock.pauses[0] <= 0.5
    assert clock.pauses[1] <= 1


def test_a_server_is_not_asked_before_it_wants_to_be() -> None:
    in_a_while = format_datetime(dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=30), usegmt=True)
    clock = Clock()
    waits = [Reply(429, headers={"Retry-After": "7"}), Reply(503, headers={"Retry-After": in_a_while})]
    with FaultServer(*waits, GOOD) as server:
        assert fetcher(clock).get(server.url) == GOOD.body
    assert clock.pauses[0] == 7
    assert 20 < clock.pauses[1] <= 30


@pytest.mark.parametrize("pause", ["61", "100000", "9" * 400])
def test_a_server_that_wants_to_be_asked_too_late_is_given_up_at_once(pause: str) -> None:
    clock = Clock()
    with FaultServer(Reply(429, headers={"Retry-After": pause})) as server:
        assert failure(lambda: fetcher(clock).get(server.url)).code == "definition-unavailable"
    assert len(server.requests) == 1
    assert not clock.pauses


CUT = [
    b"",
    b"HTTP/1.1 20",
    OK,
    OK + b"Content-Le",
    OK + b"Content-Length: 12\r\n\r\n",
    OK + b"Content-Length: 12\r\n\r\nname: mnist",
    CHUNKED,
    CHUNKED + b"c\r\nname: ",
    CHUNKED + b"c\r\nname: mnist\n",
    CHUNKED + b"c\r\nname: mnist\n\r\n",
    CHUNKED + b"c\r\nname: mnist\n\r\nx\r\n",
    OK + b"\r\nname: mnist\n",
    OK + b"Content-Length: -1\r\n\r\nname: mnist\n",
    OK + b"Content-Length: twelve\r\n\r\nname: mnist\n",
    b"\x16\x03\x01 no HTTP at all\r\n\r\n",
]


@pytest.mark.parametrize("raw", CUT)
def test_half_an_answer_is_none(raw: bytes) -> None:
    with FaultServer(Reply(raw=raw)) as server:
        assert failure(lambda: fetcher().get(server.url, token=TOKEN)).code == "definition-unavailable"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_answer_of_two_lengths_is_none() -> None:
    raw = OK + b"Content-Length: 1\r\nContent-Length: 12\r\n\r\nname: mnist\n"
    with FaultServer(Reply(raw=raw)) as server:
        assert failure(lambda: fetcher().get(server.url)).code == "definition-unavailable"
    gc.collect()  # which closes what urllib3 leaves open here


@pytest.mark.parametrize("raw", [CUT[0], CUT[5], CUT[7]])
def test_after_a_cut_answer_a_whole_one_is_taken(raw: bytes) -> None:
    with FaultServer(Reply(raw=raw), GOOD) as server:
        assert fetcher().get(server.url) == GOOD.body


def test_a_body_in_chunks_is_put_together() -> None:
    with FaultServer(Reply(raw=CHUNKED + b"5\r\nname:\r\n7;x=y\r\n mnist\n\r\n0\r\n\r\n")) as server:
        assert fetcher().get(server.url) == GOOD.body


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, br"},
        {"Content-Length": "", "Transfer-Encoding": "gzip, chunked"},
    ],
)
def test_a_compressed_body_is_refused(headers: Mapping[str, str]) -> None:
    with FaultServer(Reply(headers=headers)) as server:
        assert failure(lambda: fetcher().get(server.url)).code == "definition-unavailable"
    assert len(server.requests) == 1


MEBI = 1 << 20


@pytest.mark.parametrize(
    "reply",
    [
        Reply(headers={"Content-Length": str(1 << 30)}, endless=MEBI * b"x"),
        Reply(raw=CHUNKED, endless=b"100000\r\n" + MEBI * b"x" + b"\r\n"),
        Reply(raw=CHUNKED + b"-1\r\n", endless=MEBI * b"x"),
    ],
)
def test_a_body_of_a_gigabyte_costs_no_more_than_the_limit(reply: Reply) -> None:
    with FaultServer(GOOD, reply) as server:
        fetcher().get(server.url)  # which imports what is needed
        tracemalloc.start()
        try:
            error = failure(lambda: fetcher().get(server.url, most=4 * MEBI))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert error.code == "definition-unavailable"
    assert peak < 16 * MEBI
    assert len(server.requests) == 2


@pytest.mark.parametrize(("most", "fits"), [(12, True), (11, False)])
def test_the_limit_is_that_of_the_caller(most: int, *, fits: bool) -> None:
    with FaultServer(GOOD) as server:
        if fits:
            assert fetcher().get(server.url, most=most) == GOOD.body
        else:
            assert failure(lambda: fetcher().get(server.url, most=most)).code == "definition-unavailable"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b"", hang=True),
        Reply(raw=OK, endless=b"x", pace=0.01),
        Reply(raw=OK, endless=b"X: y\r\n", pace=0.01),
        Reply(raw=b"", endless=b"HTTP/1.1 100 Continue\r\n\r\n"),
        Reply(raw=OK + b"Content-Length: 99999\r\n\r\n", hang=True),
        Reply(raw=OK + b"Content-Length: 99999\r\n\r\n", endless=b"x", pace=0.01),
        Reply(raw=CHUNKED, endless=b"1\r\nx\r\n", pace=0.01),
        Reply(raw=CHUNKED + b"1;", endless=b"x", pace=0.01),
        Reply(raw=CHUNKED + b"0\r\n", endless=b"X: y\r\n", pace=0.01),
    ],
)
def test_a_slow_server_has_until_the_deadline_and_is_then_left(reply: Reply) -> None:
    with FaultServer(reply) as server:
        before = set(threading.enumerate())
        with pytest.raises(Unreachable):
            Fetcher(seconds=0.2).get(server.url)
        for thread in set(threading.enumerate()) - before:
            if "process_request" not in thread.name:  # which is one of the server
                thread.join(10)
                assert not thread.is_alive()


@pytest.mark.usefixtures("trusted")
def test_a_server_that_hangs_in_its_handshake_has_until_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Unreachable):
        Fetcher(seconds=0.2).get(f"https://127.0.0.1:{server.getsockname()[1]}/")


def test_a_resolver_that_hangs_has_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        ended.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(Unreachable):
        Fetcher(seconds=0.2).get(f"http://{NAME}/")
    ended.set()


@pytest.fixture(scope="module")
def any_server() -> Iterator[FaultServer]:
    with FaultServer(GOOD) as server:
        yield server


STARTS = [
    b"",
    OK,
    CHUNKED,
    OK + b"Content-Length: 2\r\n",
    OK + b"Retry-After: ",
    b"HTTP/1.1 302 X\r\nLocation: ",
]
PIECES = [
    b"\r\n",
    b"2",
    b"{}",
    b"-1",
    b": ",
    b";",
    b"Retry-After: ",
    b"Content-Encoding: ",
    b"[",
]
Raw = st.tuples(
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=10).map(b"".join),
).map(b"".join)


@settings(max_examples=50)
@given(Raw)
def test_whatever_a_server_sends_is_content_or_an_error(any_server: FaultServer, raw: bytes) -> None:
    any_server.replies = [Reply(raw=raw)]
    with suppress(NoDefinition):
        fetcher(seconds=5).get(any_server.url)


@settings(max_examples=200)
@given(st.text(max_size=30) | st.lists(st.sampled_from([*"@:/?#[]%\\", "http", "h", "secret"])).map("".join))
def test_of_whatever_url_no_password_is_shown(text: str) -> None:
    for url in (text, f"http://{text}", f"https://me:pa55word@{text}", f"https://h/?pa55word{text}"):
        shown = shown_url(url)
        assert shown.isprintable()
        assert "pa55word" not in shown
        assert "?" not in shown
        assert split_url(url) is None or shown_url(shown) == shown


def redirect(target: str) -> Reply:
    return Reply(302, b"", {"Location": target})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_on_a_server_with_the_token(status: int) -> None:
    with FaultServer(Reply(status, headers={"Location": "b.yaml?c#d"}), GOOD) as server:
        assert fetcher().get(f"{server.url}/x/a.yaml", token=TOKEN) == GOOD.body
    assert [each.path for each in server.requests] == ["/x/a.yaml", "/x/b.yaml?c"]
    assert [each.headers["Authorization"] for each in server.requests] == 2 * [f"Bearer {TOKEN}"]


def test_another_server_is_asked_without_the_token_also_where_it_redirects_back() -> None:
    with FaultServer(redirect("")) as first, FaultServer(redirect(f"{first.url}/b")) as second:
        first.replies = [redirect(second.url), GOOD]
        assert fetcher().get(first.url, token=TOKEN) == GOOD.body
    tokens = [each.headers.get("Authorization") for each in (*first.requests, *second.requests)]
    assert tokens == [f"Bearer {TOKEN}", None, None]


@pytest.mark.parametrize(("redirects", "is_followed"), [(5, True), (6, False)])
def test_only_five_redirects_are_followed(redirects: int, *, is_followed: bool) -> None:
    with FaultServer(*redirects * [redirect("/")], GOOD) as server:
        if is_followed:
            assert fetcher().get(server.url) == GOOD.body
        else:
            assert failure(lambda: fetcher().get(server.url)).code == "definition-unavailable"
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "data:,name",
        "gopher://127.0.0.1:1/",
        "http://[",
        "http://a b/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/",
        "http://me:query@127.0.0.1/",
        "http://127.0.0.1\\@127.0.0.1/",
        "http://a..b/",
        f"http://{LINK_LOCAL}/",
    ],
)
def test_a_redirect_to_what_is_no_sound_url_is_refused(target: str) -> None:
    with FaultServer(redirect(target)) as server:
        error = failure(lambda: fetcher().get(server.url, token=TOKEN))
    assert error.code == "definition-unavailable"
    assert not isinstance(error, Unreachable)
    assert len(server.requests) == 1


def test_a_redirect_leads_from_http_to_https_and_never_back(trusted: Path) -> None:
    with FaultServer(GOOD) as plain, FaultServer(GOOD, certificate=trusted / "server.pem") as encrypted:
        plain.replies = [redirect(encrypted.url)]
        assert fetcher().get(plain.url) == GOOD.body
        encrypted.replies = [redirect(plain.url)]
        assert failure(lambda: fetcher().get(encrypted.url)).code == "definition-unavailable"
        assert len(plain.requests) == 1


def test_a_server_whose_certificate_is_trusted_gives_content(trusted: Path) -> None:
    with FaultServer(GOOD, certificate=trusted / "server.pem") as server:
        assert fetcher().get(server.url, token=TOKEN) == GOOD.body


@pytest.mark.parametrize("certificate", ["expired.pem", "other.pem", "stranger.pem"])
def test_a_server_whose_certificate_is_not_trusted_sees_no_request(trusted: Path, certificate: str) -> None:
    clock = Clock()
    with FaultServer(GOOD, certificate=trusted / certificate) as server:
        error = failure(lambda: fetcher(clock).get(server.url, token=TOKEN))
    assert error.code == "definition-unavailable"
    assert not isinstance(error, Unreachable)
    assert not server.requests
    assert not clock.pauses


def test_where_nobody_listens_is_tried_a_few_times() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    clock = Clock()
    error = failure(lambda: fetcher(clock).get(f"http://127.0.0.1:{port}/", token=TOKEN))
    assert isinstance(error, Unreachable)
    assert len(clock.pauses) == TRIES - 1


@pytest.mark.parametrize("token", ["", "a b", f"{TOKEN}\r\nX: y", f"{TOKEN}\n", "é", "\x00"])
def test_what_can_be_no_token_is_not_sent(token: str) -> None:
    with FaultServer(GOOD) as server:
        assert failure(lambda: fetcher().get(server.url, token=token)).code == "definition-forbidden"
    assert not server.requests


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.yaml",
        "file:///etc/passwd",
        "http://[",
        "http://h:99999/?query",
        "http://me:query@h/",
        "http://é/",
    ],
)
def test_what_is_no_url_that_can_be_asked_is_an_error(url: str) -> None:
    assert failure(lambda: fetcher().get(url)).code == "definition-unavailable"


def test_offline_nobody_is_asked() -> None:
    with FaultServer(GOOD) as server:
        error = failure(lambda: Fetcher(offline=True).get(f"{server.url}?query=1"))
    assert isinstance(error, Unreachable)
    assert not server.requests


@pytest.mark.parametrize("proxy_scheme", ["http", "https"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_is_asked_with_its_own_user_and_never_with_the_token_of_an_https_server(
    trusted: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, proxy_scheme: str
) -> None:
    server_certificate = trusted / "server.pem" if scheme == "https" else None
    proxy_certificate = trusted / "server.pem" if proxy_scheme == "https" else None
    authorization = f"Basic {base64.b64encode(b'me:p@ss').decode()}"
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer(redirect("/b"), GOOD, certificate=server_certificate))
        proxy = stack.enter_context(ProxyServer({NAME: server.port}, authorization, proxy_certificate))
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", proxy.url.replace("://", "://me:p%40ss@"))
        assert fetcher().get(f"{scheme}://{NAME}/a", token=TOKEN) == GOOD.body
    assert [each.path for each in server.requests] == ["/a", "/b"]
    assert all(each.headers["Host"] == NAME for each in server.requests)
    assert all(each.headers["Authorization"] == f"Bearer {TOKEN}" for each in server.requests)
    seen = [each.path for each in proxy.requests]
    if scheme == "https":
        assert seen == 2 * [f"{NAME}:443"]
        assert not any("Authorization" in each.headers for each in proxy.requests)
    else:
        assert seen == [f"http://{NAME}/a", f"http://{NAME}/b"]


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_is_a_fault_and_its_password_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    with ProxyServer({}, "Basic other") as proxy:
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", proxy.url.replace("://", f"://me:{TOKEN}@"))
        error = failure(lambda: fetcher().get(f"{scheme}://{NAME}/"))
    assert error.code == "definition-unavailable"
    assert "407" in str(error)
    gc.collect()  # Python 3.10 leaves what it has read of a refusal to the garbage collector


@pytest.mark.parametrize("proxy", ["socks5://localhost:1", "http://", "http://localhost:port"])
def test_a_proxy_of_another_kind_is_a_fault(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    error = failure(lambda: fetcher().get(f"http://{NAME}/"))
    assert error.code == "definition-unavailable"
    assert "HTTP_PROXY" in str(error)


def test_what_no_proxy_names_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(GOOD) as server, ProxyServer({}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", ".test")
        monkeypatch.setattr(socket, "getaddrinfo", leads_to("127.0.0.1"))
        assert fetcher().get(f"http://{NAME}:{server.port}/") == GOOD.body
    assert not proxy.requests


def leads_to(address: str) -> Callable[..., list[tuple[object, ...]]]:
    """A resolver: without a name server of its own, a test has no names that lead anywhere."""

    def getaddrinfo(_host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    return getaddrinfo


SPELLINGS = [
    "169.254.169.254",
    "169.254.0.1",
    "169.254.169.254.",
    "0xA9FEA9FE",
    "2852039166",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[febf::1]",
    "[fd00:ec2::254]",
]


@pytest.mark.parametrize("host", SPELLINGS)
@pytest.mark.parametrize("by_proxy", [False, True])
def test_a_link_local_address_is_refused_in_any_spelling(
    monkeypatch: pytest.MonkeyPatch, host: str, *, by_proxy: bool
) -> None:
    with ProxyServer({}) as proxy:
        if by_proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        clock = Clock()
        error = failure(lambda: fetcher(clock).get(f"http://{host}/latest"))
    assert error.code == "definition-unavailable"
    assert not isinstance(error, Unreachable)
    assert not proxy.requests
    assert not clock.pauses


@pytest.mark.parametrize("host", ["169%2e254.169.254", "169.254.169.254%00"])
def test_a_proxy_is_given_no_host_that_it_would_have_to_decode(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    with ProxyServer({}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert failure(lambda: fetcher().get(f"http://{host}/")).code == "definition-unavailable"
    assert not proxy.requests


class _LinkLocal(socket.socket):
    """A connection whose other end says that it is where nothing of a test can listen."""

    def getpeername(self) -> tuple[str, int]:
        return ("fe80::a%lo", 80)


def test_what_decides_is_where_a_connection_has_gone_and_no_byte_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect(address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        return _LinkLocal(fileno=socket.create_connection(address).detach())

    monkeypatch.setattr(connection, "create_connection", connect)
    with socket.create_server(("127.0.0.1", 0)) as server:
        for scheme in ("http", "https"):
            url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/"
            assert failure(lambda url=url: fetcher().get(url)).code == "definition-unavailable"  # type: ignore[misc]
            accepted, _ = server.accept()
            with accepted:
                assert accepted.recv(1) == b""


def ask_a_link_local_server() -> None:
    """In a network of its own, in which there is one: prints what came of asking for its name."""
    with FaultServer(GOOD, host=LINK_LOCAL) as server:
        socket.getaddrinfo = leads_to(LINK_LOCAL)  # type: ignore[assignment]
        with pytest.raises(NoAnswer) as caught:
            Client(f"http://{NAME}:{server.port}", guarded=True).ask(HttpRequest("GET", "/"), Bounds(60, 100))
        assert caught.value.permanent
        assert not server.requests


@pytest.mark.process
@pytest.mark.needs("iproute2", "user namespaces")
def test_a_name_that_leads_to_a_link_local_server_is_refused() -> None:
    """With a real one: in a network namespace, where an address may be added."""
    script = f'ip link set lo up && ip address add {LINK_LOCAL}/32 dev lo && exec "$@"'
    namespace = ["unshare", "--net", "--map-root-user", "sh", "-c", script, "sh"]
    ask = f"import runpy; runpy.run_path({__file__!r})['ask_a_link_local_server']()"
    subprocess.run([*namespace, sys.executable, "-c", ask], check=True, cwd=ROOT)
