"""The image check fails a task for what is certain, asks again while that may help, and else warns."""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest

from pai_network.deadline import Deadline
from pai_pod import image_check
from pai_pod.image_check import ImageVerdict, check_image, credentials_for
from pai_pod.image_reference import parse_reference
from tests.fault_server import Reply
from tests.git_server import Clock
from tests.registry_server import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    INDEX,
    MANIFEST,
    PASSWORD,
    USER,
    Front,
    TokenServer,
    basic,
    docker_registry,
    errors,
    htpasswd,
    push,
)
from tests.support import made_once

pytestmark = pytest.mark.needs("docker-registry")

KINDS = {"index": INDEX, "list": DOCKER_LIST, "oci": MANIFEST, "docker": DOCKER_MANIFEST}


@dataclass
class Check:
    """Checks images, in a time that only pauses make pass."""

    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)

    def __call__(self, uri: str, auth: Mapping[str, str] | None = None, seconds: float = 60) -> ImageVerdict:
        deadline = Deadline(seconds, lambda: self.clock.now, self.clock.sleep)
        verdict = check_image(uri, auth, deadline, self.said.append)
        for text in (verdict.message, *self.said):
            assert text.isprintable()
            assert PASSWORD not in text
            assert basic(USER, PASSWORD) not in text
        return verdict


@pytest.fixture
def check() -> Check:
    return Check()


def auth(address: str, password: str = PASSWORD) -> dict[str, str]:
    return {"username": USER, "password": password, "registryuri": address}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What registries have in these tests: images of each kind in the repositories `public` and `private`."""

    def fill(folder: Path) -> None:
        with docker_registry(folder, folder / "data") as registry:
            for repository in ("public", "private", "deep/er/path"):
                for name, kind in KINDS.items():
                    push(registry, f"{repository}:{name}", kind)
            (folder / "digest").write_text(push(registry, "public:oci", MANIFEST))

    return made_once(tmp_path_factory, "images", fill)


@pytest.fixture(scope="module")
def registry(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("registry"), images / "data") as address:
        yield address


@pytest.fixture(scope="module")
def basic_registry(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("basic")
    with docker_registry(folder, images / "data", htpasswd(folder)) as address:
        yield address


@pytest.fixture(scope="module")
def token_registry(
    images: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, TokenServer]]:
    folder = tmp_path_factory.mktemp("token")
    with TokenServer(folder) as tokens, docker_registry(folder, images / "data", tokens.settings) as address:
        yield address, tokens


@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_an_image_of_any_kind_exists(registry: str, kind: str, check: Check) -> None:
    assert check(f"{registry}/public:{kind}").outcome == "exists"
    assert check(f"{registry}/deep/er/path:{kind}").outcome == "exists"


@pytest.mark.process
def test_a_digest_is_what_is_asked_for(registry: str, images: Path, check: Check) -> None:
    digest = (images / "digest").read_text()
    assert check(f"{registry}/public@{digest}").outcome == "exists"
    assert check(f"{registry}/public:no-such-tag@{digest}").outcome == "exists"
    assert check(f"{registry}/public:index@sha256:{'0' * 64}").outcome == "missing"


@pytest.mark.process
def test_localhost_is_a_registry_by_its_name_too(registry: str, check: Check) -> None:
    assert check(f"localhost:{registry.partition(':')[2]}/public:oci").outcome == "exists"


@pytest.mark.process
@pytest.mark.parametrize("image", ["public:no-such-tag", "no-such-repository:oci", "public:Index"])
def test_what_an_open_registry_does_not_have_is_missing(registry: str, image: str, check: Check) -> None:
    verdict = check(f"{registry}/{image}")
    assert verdict.outcome == "missing"
    assert registry in verdict.message
    assert image in verdict.message
    assert not check.clock.pauses


@pytest.mark.parametrize("uri", ["Ubuntu", "ubuntu:", "https://x.io/y", "", "x" * 5000])
def test_what_is_no_reference_is_missing_and_nobody_is_asked(uri: str, check: Check) -> None:
    assert check(uri).outcome == "missing"


@pytest.mark.process
@pytest.mark.parametrize(
    ("image", "password", "outcome", "pauses"),
    [
        ("private:oci", PASSWORD, "exists", 0),
        ("private:no-such-tag", PASSWORD, "missing", 0),
        ("no-such-repository:x", PASSWORD, "missing", 0),
        ("private:oci", "wrong", "missing", 2),
        ("private:oci", None, "unknown", 0),
        ("private:no-such-tag", None, "unknown", 0),
    ],
)
def test_a_registry_with_basic_authentication(
    basic_registry: str, image: str, password: str | None, outcome: str, pauses: int, check: Check
) -> None:
    given = None if password is None else auth(basic_registry, password)
    assert check(f"{basic_registry}/{image}", given).outcome == outcome
    assert len(check.clock.pauses) == pauses


@pytest.mark.process
@pytest.mark.parametrize(
    ("image", "password", "outcome", "pauses"),
    [
        ("private:oci", PASSWORD, "exists", 0),
        ("public:oci", PASSWORD, "exists", 0),
        ("public:oci", None, "exists", 0),
        ("public:no-such-tag", None, "missing", 0),
        ("private:no-such-tag", PASSWORD, "missing", 0),
        ("no-such-repository:x", PASSWORD, "missing", 0),
        ("private:oci", "wrong", "missing", 2),
        ("private:oci", None, "unknown", 0),
        ("no-such-repository:x", None, "unknown", 0),
    ],
)
def test_a_registry_with_tokens(
    token_registry: tuple[str, TokenServer],
    image: str,
    password: str | None,
    outcome: str,
    pauses: int,
    check: Check,
) -> None:
    address, _ = token_registry
    given = None if password is None else auth(address, password)
    assert check(f"{address}/{image}", given).outcome == outcome
    assert len(check.clock.pauses) == pauses


@pytest.mark.process
def test_the_password_goes_to_the_token_server_and_never_to_the_registry(
    token_registry: tuple[str, TokenServer], check: Check
) -> None:
    address, tokens = token_registry
    tokens.requests.clear()
    with Front(address) as front:
        assert check(f"{front.address}/private:oci", auth(front.address)).outcome == "exists"
    assert tokens.authorizations == [basic(USER, PASSWORD)]
    first, second = front.authorizations
    assert first is None
    assert second is not None
    assert second.startswith("Bearer ")


def later(value: str) -> Reply:
    return Reply(429, headers={"Retry-After": value})


def redirect(target: str) -> Reply:
    return Reply(307, headers={"Location": target})


FOUND = Reply(200, headers={"Content-Type": INDEX})
NOT_THERE = Reply(404, errors("MANIFEST_UNKNOWN"))
SILENCE = Reply(raw=b"", hang=True)
HALF = Reply(404, NOT_THERE.body[:-9], {"Content-Length": str(len(NOT_THERE.body))})
NO_NAME = Reply(404, errors("NAME_UNKNOWN"))
BASIC = Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
UNKNOWN_SCHEME = Reply(401, headers={"WWW-Authenticate": 'Negotiate, Digest realm="x"'})
FAR = formatdate(time.time() + 10_000, usegmt=True)


@dataclass(frozen=True)
class Case:
    """What a registry answers, one after the other, and what comes of it after how many seconds of pauses."""

    replies: tuple[Reply, ...]
    outcome: str
    requests: int
    pauses: int = 0
    least: float = 0
    most: float = 60
    login: bool = False


CASES = {
    "found": Case((FOUND,), "exists", 1),
    "no HEAD": Case((Reply(405), FOUND), "exists", 2),
    "no HEAD, not found": Case((Reply(405), NOT_THERE), "missing", 2),
    "not found": Case((Reply(404), NOT_THERE), "missing", 2),
    "no such repository": Case((Reply(404), NO_NAME), "missing", 2),
    "no such repository, for a user": Case((BASIC, Reply(404), NO_NAME), "missing", 3, login=True),
    "no such repository, for a user, to whom all is open": Case(
        (Reply(200), Reply(404), NO_NAME), "missing", 3, login=True
    ),
    "found by a user who has logged in": Case((BASIC, FOUND), "exists", 2, login=True),
    "found by a user who need not log in": Case((Reply(404), FOUND), "exists", 2, login=True),
    "found by a user who must log in for it": Case((Reply(200), BASIC, FOUND), "exists", 3, login=True),
    "no login for now": Case((Reply(503), BASIC, FOUND), "exists", 3, pauses=1, most=1, login=True),
    "no login at all": Case((Reply(raw=b""),), "unknown", 1, login=True),
    "404 of something else": Case((Reply(404), Reply(404, b"<html>")), "unknown", 2),
    "404 without a code": Case((Reply(404), Reply(404, b'{"errors": [{}, 1]}')), "unknown", 2),
    "404 with another list": Case((Reply(404), Reply(404, b'{"errors": 5}')), "unknown", 2),
    "404 with deep JSON": Case((Reply(404), Reply(404, b"[" * 100_000)), "unknown", 2),
    "404, half of it": Case((Reply(404), HALF), "unknown", 2),
    "404 that is then found": Case((Reply(404), FOUND), "exists", 2),
    "200 of something else": Case((Reply(200, headers={"Content-Type": "text/html"}),), "unknown", 1),
    "429, then found": Case((Reply(429), FOUND), "exists", 2, pauses=1, most=1),
    "429 three times, then found": Case((Reply(429),) * 3 + (FOUND,), "exists", 4, pauses=3, most=7),
    "429 with a pause, then found": Case(
        (later("20"), FOUND), "exists", 2, pauses=1, least=20, most=21
    ),
    "429 with a pause beyond the deadline": Case((later("61"),), "unknown", 1),
    "429 with a date beyond the deadline": Case((later(FAR),), "unknown", 1),
    "429 with nonsense": Case((later("soon"), FOUND), "exists", 2, pauses=1, most=1),
    "500, then found": Case((Reply(500), FOUND), "exists", 2, pauses=1, most=1),
    "503, then not found": Case((Reply(503), Reply(404), NOT_THERE), "missing", 3, pauses=1, most=1),
    "503 to the body": Case((Reply(404), Reply(503), FOUND), "exists", 3, pauses=1, most=1),
    "408, then found": Case((Reply(408), FOUND), "exists", 2, pauses=1, most=1),
    "401 for nobody": Case((BASIC,), "unknown", 1),
    "401 without a challenge": Case((Reply(401),), "unknown", 1),
    "401 of an unknown kind": Case((UNKNOWN_SCHEME,), "unknown", 1, login=True),
    "401 once, for a user": Case((BASIC, BASIC, BASIC, FOUND), "exists", 4, 1, 1, 2, login=True),
    "401 always, for a user": Case((BASIC,) * 6, "missing", 6, 2, 2, 5, login=True),
    "403 for nobody": Case((Reply(403), Reply(403, errors("DENIED"))), "unknown", 2),
    "403 of a firewall": Case((BASIC, Reply(403), Reply(403, b"no")), "unknown", 3, login=True),
    "403 always, for a user": Case(
        (BASIC, Reply(403), Reply(403, errors("DENIED"))) * 3, "missing", 9, 2, 2, 5, login=True
    ),
    "418": Case((Reply(418),) * 2, "unknown", 2),
    "nothing": Case((Reply(raw=b""),), "unknown", 1),
    "no HTTP": Case((Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),), "unknown", 1),
    "half a status": Case((Reply(raw=b"HTTP/1.1 2"),), "unknown", 1),
    "silence": Case((SILENCE,), "unknown", 1),
    "endless headers": Case((Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000),), "unknown", 1),
    "an endless body": Case((Reply(404), Reply(404, b"x" * 5_000_000)), "unknown", 2),
    "a redirect in circles": Case((redirect("/v2/public/manifests/oci"),) * 6, "unknown", 6),
    "a redirect to a file": Case((redirect("file:///etc/passwd"),), "unknown", 1),
    "a redirect to another machine": Case((redirect("http://example.com/"),), "unknown", 1),
    "a redirect to nowhere": Case((redirect("https://[x/"),), "unknown", 1),
    "a redirect, then found": Case((redirect("/x?y"), FOUND), "exists", 2),
    "a redirect without a place": Case((Reply(307),) * 2, "unknown", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_comes_of_each_answer(name: str, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Played by a server of the test's: a real registry cannot be made to answer so."""
    case = CASES[name]
    monkeypatch.setattr(image_check, "ATTEMPT_SECONDS", 0.3 if SILENCE in case.replies else 60)
    with Front() as server:
        server.replies += case.replies
        given = auth(server.address) if case.login else None
        assert check(f"{server.address}/public:oci", given).outcome == case.outcome
    assert len(server.requests) == case.requests
    assert len(check.clock.pauses) == len(check.said) == case.pauses
    assert case.least <= sum(check.clock.pauses) <= case.most


@pytest.mark.process
def test_a_registry_that_recovers_is_asked_again_through_the_real_one(registry: str, check: Check) -> None:
    with Front(registry) as front:
        front.replies += [Reply(503), later("2")]
        assert check(f"{front.address}/public:list").outcome == "exists"
    assert len(front.requests) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_registry_that_does_not_recover_is_asked_until_the_deadline(status: int, check: Check) -> None:
    with Front() as server:
        server.replies += [Reply(status)] * 1000
        began = check.clock.now
        assert check(f"{server.address}/public:oci").outcome == "unknown"
    assert check.clock.now - began < 60
    assert 3 < len(server.requests) < 100


def test_one_deadline_is_for_all_images_of_a_task(check: Check) -> None:
    deadline = Deadline(60, lambda: check.clock.now, check.clock.sleep)
    began = check.clock.now
    with Front() as server:
        server.replies += [later("25")] * 10
        for number in range(3):
            assert (
                check_image(f"{server.address}/x:{number}", None, deadline, check.said.append).outcome
                == "unknown"
            )
    assert check.clock.now - began < 60


def issued(body: bytes) -> Reply:
    return Reply(200, body)


@pytest.mark.process
@pytest.mark.parametrize(
    ("replies", "login", "outcome", "pauses"),
    [
        ([Reply(503)], True, "exists", 1),
        ([later("3")], True, "exists", 1),
        ([Reply(401)], True, "exists", 1),
        ([Reply(401)] * 3, True, "missing", 2),
        ([Reply(401)], False, "unknown", 0),
        ([issued(b"{}")], True, "unknown", 0),
        ([issued(b'{"token": 5}')], True, "unknown", 0),
        ([issued(b'{"token": ""}')], True, "unknown", 0),
        ([issued(b'{"token": "a\\r\\nb: c"}')], True, "unknown", 0),
        ([issued(b'{"token": "abc"')], True, "unknown", 0),
        ([issued(b'["token"]')], True, "unknown", 0),
        # A token that the registry does not take.
        ([issued(b'{"access_token": "abc"}')] * 3, True, "missing", 2),
        ([Reply(404)], True, "unknown", 0),
        ([Reply(raw=b"")], True, "unknown", 0),
    ],
)
def test_the_faults_of_a_token_server(
    token_registry: tuple[str, TokenServer],
    replies: list[Reply],
    login: bool,  # noqa: FBT001 - of a table
    outcome: str,
    pauses: int,
    check: Check,
) -> None:
    address, tokens = token_registry
    tokens.replies[:] = replies
    assert check(f"{address}/private:oci", auth(address) if login else None).outcome == outcome
    assert len(check.clock.pauses) == pauses
    assert not tokens.replies


def test_a_registry_that_is_not_there_is_a_warning_at_once(check: Check) -> None:
    with Front() as server:
        address = server.address
    assert check(f"{address}/x").outcome == "unknown"
    assert not check.clock.pauses


def test_a_resolver_that_does_not_answer_holds_nobody_up(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which name servers a machine asks is not for a test to change: the call that asks them stands still."""
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait() and [])
    monkeypatch.setattr(image_check, "ATTEMPT_SECONDS", 0.1)
    assert check("ubuntu").outcome == "unknown"
    ended.set()


@pytest.mark.parametrize(
    ("image", "registryuri", "used"),
    [
        ("ubuntu", None, True),
        ("ubuntu", "", True),
        ("ubuntu", "https://index.docker.io/v1/", True),
        ("ubuntu", "docker.io", True),
        ("index.docker.io/x/y", "Docker.io", True),
        ("x.azurecr.io/y", "x.azurecr.io", True),
        ("x.azurecr.io/y", "https://x.azurecr.io/v2/", True),
        ("x.azurecr.io/y", "HTTPS://X.azurecr.io", True),
        ("x:5000/y", "http://x:5000", True),
        ("x:5000/y", "x:5000/", True),
        ("x.io/y/z", "x.io/y", True),
        ("x.io/y/z", "https://x.io/v2/y/", True),
        ("x.io/z", "x.io/y", False),
        ("ubuntu", "registry-1.docker.io", False),
        ("x.azurecr.io/y", None, False),
        ("ubuntu", "x.azurecr.io", False),
        ("x:5000/y", "x:5001", False),
        ("x:5000/y", "x", False),
        ("evil.io/x.azurecr.io", "x.azurecr.io", False),
        ("x.azurecr.io.evil.io/y", "x.azurecr.io", False),
        ("x.azurecr.io/y", f"https://{USER}:{PASSWORD}@x.azurecr.io", True),
        ("x.azurecr.io/y", f"https://{USER}:{PASSWORD}@y.azurecr.io", False),
        ("x.azurecr.io/y", "https://x.azurecr.io@evil.io", False),
        ("ubuntu", 5, False),
        ("ubuntu", {"a": "b"}, False),
    ],
)
def test_credentials_go_to_the_registry_that_they_are_for(
    image: str,
    registryuri: object,
    used: bool,  # noqa: FBT001 - of a table
) -> None:
    given = {"username": USER, "password": PASSWORD, "registryuri": registryuri}
    credentials, unused = credentials_for(parse_reference(image), given)
    assert bool(credentials) == used
    assert bool(unused) != used
    assert PASSWORD not in unused
    assert PASSWORD not in repr(credentials)


@pytest.mark.parametrize("part", ["username", "password"])
@pytest.mark.parametrize("value", [None, "", 5, ["x"]])
def test_half_a_login_is_none(part: str, value: object) -> None:
    given = {"username": USER, "password": PASSWORD, part: value}
    credentials, unused = credentials_for(parse_reference("ubuntu"), given)
    assert credentials is None
    assert unused
    assert PASSWORD not in unused


def test_no_auth_is_nothing_to_talk_about() -> None:
    assert credentials_for(parse_reference("ubuntu"), {}) == (None, "")
