"""Over HTTPS and a proxy: where credentials go, and where they do not.

The registries of this file are servers of the tests', in the place of ones on other machines: no request
leaves this machine, because what stands for the proxy answers for them all.
"""

import gc
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pai_network import tls
from pai_network.deadline import Deadline
from pai_network.proxies import proxy_for
from pai_pod import registry_request
from pai_pod.image_check import ImageVerdict, check_image
from pai_pod.registry import MANIFEST_TYPES
from tests.certificates import authority, server_certificate
from tests.fault_server import FaultServer, Reply, Request
from tests.registry_server import PASSWORD, USER, basic, errors

HUB, HUB_TOKENS = "registry-1.docker.io", "auth.docker.io"
PRIVATE, ELSEWHERE, STRANGER = "registry.test", "elsewhere.test", "stranger.test"
PROXY_PASSWORD = "of-the-proxy"

FOUND = Reply(200, headers={"Content-Type": MANIFEST_TYPES[0]})
BASIC = Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
TOKEN = Reply(200, json.dumps({"token": "abc"}).encode())


def bearer(realm: str) -> Reply:
    return Reply(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="ignored"'})


def redirect(target: str) -> Reply:
    return Reply(307, headers={"Location": target})


class Internet(FaultServer):
    """What stands for the proxy, and for all servers that it leads to: `sites` are their replies, in order.

    `proxied` are the heads of the requests to the proxy itself, which gives its `refusal` if it has one.
    """

    def __init__(self, certificate: Path) -> None:
        super().__init__(certificate=certificate)
        self.sites: dict[str, list[Reply]] = {}
        self.proxied: list[str] = []
        self.refusal = b""

    @property
    def seen(self) -> list[tuple[str, str, str | None]]:
        """Host, path and authorization of each request to one of the servers."""
        return [
            (each.headers["Host"], each.path, each.headers.get("Authorization")) for each in self.requests
        ]

    def finish_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with request.makefile("rb") as lines:
            self.proxied.append(b"".join(iter(lines.readline, b"\r\n")).decode())
        request.sendall(self.refusal or b"HTTP/1.1 200 OK\r\n\r\n")
        if not self.refusal:
            super().finish_request(request, client_address)

    def next_reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.sites[request.headers["Host"]].pop(0)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a client is to trust, and what the servers have; not that of the stranger."""
    folder = tmp_path_factory.mktemp("certificates")
    root = authority("root")
    root.write(folder / "root.pem")
    server_certificate(root, [HUB, HUB_TOKENS, PRIVATE, ELSEWHERE]).write(folder / "servers.pem")
    return folder


@pytest.fixture
def internet(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Internet]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "root.pem"))
    tls.system_trust.cache_clear()
    with Internet(certificates / "servers.pem") as server:
        monkeypatch.setenv("HTTPS_PROXY", server.url.replace("https://", f"http://me:{PROXY_PASSWORD}@"))
        for name in ("https_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield server
    tls.system_trust.cache_clear()


def check(image: str, registryuri: str | None = None, *, seconds: float = 60) -> ImageVerdict:
    """As the user of the registry `registryuri`, or as nobody; pauses take no time."""
    said: list[str] = []
    given = {"username": USER, "password": PASSWORD, "registryuri": registryuri} if registryuri else None
    verdict = check_image(image, given, Deadline(seconds, sleep=lambda _: None), said.append)
    for text in (verdict.message, *said):
        assert text.isprintable()
        assert not any(secret in text for secret in (PASSWORD, PROXY_PASSWORD, basic(USER, PASSWORD)))
    return verdict


def test_an_image_without_a_registry_is_asked_for_at_docker_hub(internet: Internet) -> None:
    internet.sites = {HUB: [bearer(f"https://{HUB_TOKENS}/token"), FOUND], HUB_TOKENS: [TOKEN]}
    assert check("ubuntu", "https://index.docker.io/v1/").outcome == "exists"
    manifest = "/v2/library/ubuntu/manifests/latest"
    assert internet.seen == [
        (HUB, "/v2/", None),
        (HUB_TOKENS, "/token?scope=repository%3Alibrary%2Fubuntu%3Apull&service=s", basic(USER, PASSWORD)),
        (HUB, manifest, "Bearer abc"),
    ]
    # Without, what guards some registries takes us for something bad.
    assert {request.headers.get("User-Agent") for request in internet.requests} == {"pai-runtime"}


def test_a_401_without_credentials_is_not_certain(internet: Internet) -> None:
    """Docker Hub answers so for what does not exist, and by accident for what does."""
    challenge = bearer(f"https://{HUB_TOKENS}/token")
    internet.sites = {HUB: [challenge, challenge], HUB_TOKENS: [TOKEN]}
    assert check("someone/image:v1").outcome == "unknown"
    assert len(internet.seen) == 3


@pytest.mark.parametrize(("registryuri", "outcome"), [(None, "unknown"), (PRIVATE, "missing")])
def test_that_there_is_no_such_repository_is_certain_only_for_a_user(
    internet: Internet, registryuri: str | None, outcome: str
) -> None:
    """To one whom a registry knows not it may say so of what is private."""
    no_name = [Reply(404), Reply(404, errors("NAME_UNKNOWN"))]
    internet.sites = {PRIVATE: [bearer(f"https://{ELSEWHERE}/token"), *no_name], ELSEWHERE: [TOKEN]}
    assert check(f"{PRIVATE}/image", registryuri).outcome == outcome
    assert not internet.sites[PRIVATE]


def test_credentials_of_another_registry_are_not_used(internet: Internet) -> None:
    internet.sites = {PRIVATE: [BASIC]}
    assert check(f"{PRIVATE}/image", "docker.io").outcome == "unknown"
    assert [authorization for *_, authorization in internet.seen] == [None]


@pytest.mark.parametrize(
    ("target", "carried"),
    [
        ("/other", True),
        (f"https://{PRIVATE}/other", True),
        (f"https://{PRIVATE}:443/other", True),
        (f"https://{ELSEWHERE}/other", False),
        (f"//{ELSEWHERE}/other", False),
    ],
)
def test_a_redirect_carries_credentials_to_the_same_server_only(
    internet: Internet,
    target: str,
    carried: bool,  # noqa: FBT001 - of a table
) -> None:
    internet.sites = {PRIVATE: [BASIC, redirect(target)], ELSEWHERE: [FOUND]}
    internet.sites[PRIVATE] += [FOUND]
    internet.sites[f"{PRIVATE}:443"] = [FOUND]
    assert check(f"{PRIVATE}/image", PRIVATE).outcome == "exists"
    assert [authorization for *_, authorization in internet.seen] == [
        None,
        basic(USER, PASSWORD),
        basic(USER, PASSWORD) if carried else None,
    ]


def test_credentials_do_not_come_back_by_a_second_redirect(internet: Internet) -> None:
    internet.sites = {
        PRIVATE: [BASIC, redirect(f"https://{ELSEWHERE}/"), FOUND],
        ELSEWHERE: [redirect(f"https://{PRIVATE}/")],
    }
    assert check(f"{PRIVATE}/image", PRIVATE).outcome == "exists"
    assert [authorization for *_, authorization in internet.seen][2:] == [None, None]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_of_the_server_that_a_redirect_leads_to_is_not_certain(
    internet: Internet, status: int
) -> None:
    wants = Reply(status, errors("DENIED"), {"WWW-Authenticate": "Basic"})
    internet.sites = {PRIVATE: [BASIC, redirect(f"https://{ELSEWHERE}/")], ELSEWHERE: [wants]}
    assert check(f"{PRIVATE}/image", PRIVATE).outcome == "unknown"
    assert internet.seen[-1] == (ELSEWHERE, "/", None)
    assert len(internet.seen) == 3


@pytest.mark.parametrize(
    ("source", "target", "may"),
    [
        (PRIVATE, f"https://{PRIVATE}/x?y", True),
        (PRIVATE, f"https://{ELSEWHERE}:8443/", True),
        (PRIVATE, f"http://{PRIVATE}/", False),
        (PRIVATE, f"http://{ELSEWHERE}/", False),
        (PRIVATE, "https://localhost/", False),
        (PRIVATE, "https://LOCALHOST/", False),
        (PRIVATE, "http://localhost/", False),
        (PRIVATE, "https://127.0.0.1:6443/", False),
        (PRIVATE, "https://[::1]/", False),
        (PRIVATE, "file:///etc/passwd", False),
        (PRIVATE, "ftp://elsewhere.test/", False),
        (PRIVATE, "/no/server", False),
        (PRIVATE, "https:///no/server", False),
        (PRIVATE, "https://x:port/", False),
        (PRIVATE, "https://x:0/", False),
        (PRIVATE, "https://x:65536/", False),
        (PRIVATE, "https://[x/", False),
        (PRIVATE, "https://x y/", False),
        (PRIVATE, "https://x/\r\nHost: y", False),
        (PRIVATE, "https://x/\x00", False),
        (PRIVATE, "https://x/é", False),
        (PRIVATE, "", False),
        ("localhost:5000", f"https://{ELSEWHERE}/", True),
        ("localhost:5000", f"http://{ELSEWHERE}/", False),
        ("localhost:5000", "http://127.0.0.2:5001/", True),
        ("[::1]:5000", "https://localhost/", True),
    ],
)
def test_nothing_leads_to_http_on_other_machines_nor_from_others_to_this_one(
    source: str,
    target: str,
    may: bool,  # noqa: FBT001 - of a table
) -> None:
    assert registry_request.may_lead(f"https://{source}/v2/", target) == may


@pytest.mark.parametrize("target", [f"http://{ELSEWHERE}/", "https://localhost/", "https://[x/"])
def test_what_may_not_lead_there_ends_the_check(internet: Internet, target: str) -> None:
    for reply in (redirect(target), bearer(target)):
        internet.sites = {PRIVATE: [reply]}
        assert check(f"{PRIVATE}/image", PRIVATE).outcome == "unknown"
    assert len(internet.seen) == len(internet.proxied) == 2


def test_a_server_that_cannot_show_that_it_is_the_registry_is_told_nothing(internet: Internet) -> None:
    verdict = check(f"{STRANGER}/image", STRANGER)
    assert verdict.outcome == "unknown"
    assert "certificate" in verdict.message
    assert not internet.seen


def test_what_the_system_does_not_trust_is_told_nothing(
    internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority("another").write(tmp_path / "another.pem")))
    assert check(f"{PRIVATE}/image", PRIVATE).outcome == "unknown"
    assert not internet.seen


def test_the_proxy_gets_its_own_credentials_and_no_others(internet: Internet) -> None:
    internet.sites = {PRIVATE: [BASIC, FOUND]}
    assert check(f"{PRIVATE}/image", PRIVATE).outcome == "exists"
    for head in internet.proxied:
        assert head.startswith(f"CONNECT {PRIVATE}:443 ")
        assert basic("me", PROXY_PASSWORD) in head
        assert basic(USER, PASSWORD) not in head


@pytest.mark.parametrize(
    "refusal",
    [
        b"HTTP/1.1 407 \x1b[31m of-the-proxy\r\n\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\n\r\n",
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_proxy_that_refuses_is_a_warning(internet: Internet, refusal: bytes) -> None:
    internet.refusal = refusal
    assert check(f"{PRIVATE}/image", PRIVATE).outcome == "unknown"
    assert len(internet.proxied) == 1
    gc.collect()  # Python 3.10 leaves what it has read of a refusal to the garbage collector


@pytest.mark.parametrize(
    "proxy",
    ["socks5://localhost:1", "https://localhost:1", "http://localhost:port", "http://", "http://127.0.0.1:1"],
)
def test_a_proxy_of_another_kind_or_none_at_all_is_a_warning(
    internet: Internet, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    assert check(f"{PRIVATE}/image").outcome == "unknown"
    assert not internet.proxied


@pytest.mark.parametrize(
    ("excluded", "host", "used"),
    [
        ("", "registry.test", True),
        ("registry.test", "registry.test", False),
        (".test", "registry.test", False),
        ("test", "registry.test", False),
        ("*", "registry.test", False),
        ("other.test, registry.test", "registry.test", False),
        ("other.test", "registry.test", True),
        ("gistry.test", "registry.test", True),
        ("10.0.0.1", "10.0.0.1", False),
        ("", "localhost", False),
        ("", "127.0.0.1", False),
        ("", "[::1]", False),
    ],
)
def test_the_environment_says_what_does_not_go_by_the_proxy(
    excluded: str,
    host: str,
    used: bool,  # noqa: FBT001 - of a table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", excluded)
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert (proxy_for(urlsplit(f"https://{host}/")) is not None) == used
