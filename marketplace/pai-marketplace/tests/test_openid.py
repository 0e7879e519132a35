"""Signing in with OpenID Connect: at Canaille, a real provider, and at one that lies."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from joserfc.jwk import OctKey

from pai_marketplace import openid, people
from pai_marketplace.database import Database
from pai_marketplace.errors import Conflict, Invalid, NotSignedIn, Unavailable
from pai_marketplace.models import Account
from pai_marketplace.openid import Begun, Provider
from pai_marketplace.settings import CALLBACK, OpenId
from pai_marketplace.viewer import Identity
from pai_runtime.engines.local.ports import free_ports
from tests.lying_provider import OTHER_KEY, LyingProvider
from tests.openid_provider import PASSWORD, SECRET, canaille
from tests.running_marketplace import RunningMarketplace, add_people, template
from tests.web_client import Visitor

ALICE = Identity("https://id.example.org 7", "dora", None)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMarketplace]:
    """A marketplace whose people sign in at Canaille."""
    port, its_port = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    with canaille(its_port, url + CALLBACK) as issuer:
        known = OpenId(issuer, "market", url, SECRET, admins="admins")
        with RunningMarketplace(tmp_path_factory.mktemp("market"), port=port, openid=known) as running:
            yield running


def at_the_provider(visitor: Visitor, next_: str = "") -> str:
    """Sign in there as dora; returns the address to which the provider sends the browser back."""
    address = visitor.get(f"/sign-in/openid?next={next_}").headers["location"]
    answer = visitor.get(address)
    while True:
        if answer.status in (302, 303):
            address = urljoin(address, answer.headers["location"])
            if address.startswith(visitor.url):
                return address
            answer = visitor.get(address)
        elif 'name="password"' in answer.text:
            answer = visitor.post(address, csrf="", password=PASSWORD)
        else:
            assert 'name="login"' in answer.text, answer.text
            answer = visitor.post(address, csrf="", login="dora")


@pytest.mark.process
@pytest.mark.needs("canaille")
def test_who_signs_in_at_the_provider_publishes_for_the_groups_there(market: RunningMarketplace) -> None:
    visitor = market.visitor()
    assert "/sign-in/openid?next=%2Fpublish" in visitor.get("/sign-in?next=/publish").text
    answer = visitor.get(at_the_provider(visitor, "/publish"))
    assert (answer.status, 'content="0; url=/publish"' in answer.text) == (200, True), answer.text
    assert "Signed in as <strong>dora" in visitor.get("/").text
    assert visitor.post("/publish", do="publish", text=template(), owner="team").status == 303
    with market.database.reading() as session:
        account = session.get_one(Account, "dora")
        assert account.is_admin
        assert account.subject
        assert account.subject.startswith("http://localhost:")
    assert visitor.post("/sign-out", "/").status == 303
    assert "Signed in as" not in visitor.get("/").text


@pytest.mark.process
@pytest.mark.needs("canaille")
def test_a_sign_in_ends_once_and_in_the_browser_where_it_began(market: RunningMarketplace) -> None:
    visitor = market.visitor()
    back = at_the_provider(visitor)
    begun = next(each for each in visitor.cookies if each.name.endswith("sign_in"))
    assert market.visitor().get(back).status == 401
    other = market.visitor()
    other.get("/sign-in/openid")
    assert other.get(back).status == 401
    assert visitor.get(back).status == 200
    again = market.visitor()
    assert again.get(back).status == 401
    again.cookies.set_cookie(begun)
    assert again.get(back).status == 401  # the provider knows that its code was used
    assert "Signed in as" not in again.get("/").text


@pytest.mark.process
@pytest.mark.needs("canaille")
@pytest.mark.parametrize(
    "next_", ["https://example.org", "//example.org", "/%5Cexample.org", "/%0d%0aX:y", ""]
)
def test_no_sign_in_leads_to_another_site(market: RunningMarketplace, next_: str) -> None:
    visitor = market.visitor()
    back = at_the_provider(visitor, next_)
    answer = visitor.get(back)
    assert 'content="0; url=/"' in answer.text, (back, answer.text)


@pytest.mark.process
@pytest.mark.needs("canaille")
def test_a_code_without_the_secret_of_the_browser_that_asked_is_worth_nothing(
    market: RunningMarketplace,
) -> None:
    known = market.settings.openid
    assert known
    visitor = market.visitor()
    back = at_the_provider(visitor)
    query = dict(parse_qsl(urlsplit(back).query))
    stolen = replace(openid.begin(""), state=query["state"])
    with pytest.raises(NotSignedIn):
        Provider(known).identity(stolen, query)
    # Canaille's database in memory takes any code of a client for the one it looks for: none may be left.
    assert visitor.get(back).status == 200


@pytest.fixture
def provider() -> Iterator[LyingProvider]:
    with LyingProvider("market") as running:
        yield running


def identity(provider: LyingProvider, **answer: str) -> Identity:
    """What a marketplace makes of what the provider says at the end of a sign-in."""
    begun = Begun("state", "nonce", "verifier", "")
    provider.claims.setdefault("nonce", "nonce")
    known = OpenId(provider.url, "market", "http://127.0.0.1", SECRET)
    return Provider(known).identity(begun, {"state": "state", "code": "code", **answer})


def test_the_truth_is_believed(provider: LyingProvider) -> None:
    expected = Identity(f"{provider.url} 1", "dora", frozenset({"team"}))
    assert identity(provider) == identity(provider, iss=provider.url) == expected
    provider.claims["aud"] = ["other", "market"]
    del provider.user_info["groups"]
    assert identity(provider).groups is None


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "https://other.example.org"),
        ("aud", "other"),
        ("aud", ["other"]),
        ("aud", None),
        ("azp", "other"),
        ("nonce", "that of another sign-in"),
        ("nonce", None),
        ("exp", 1),
        ("exp", None),
        ("exp", "never"),
        ("iat", 1 << 40),
        ("nbf", 1 << 40),
        ("sub", ""),
        ("sub", None),
        ("sub", ["1"]),
        ("sub", "2"),
    ],
)
def test_a_token_for_something_else_is_refused(provider: LyingProvider, claim: str, value: Any) -> None:
    provider.claims[claim] = value
    if value is None:
        provider.claims["nonce" if claim != "nonce" else "x"] = "nonce"
        del provider.claims[claim]
        provider.claims.setdefault("nonce", "" if claim == "nonce" else "nonce")
    with pytest.raises(NotSignedIn):
        identity(provider)


def forge(provider: LyingProvider, how: str) -> None:
    """Let the provider send a token that it has not signed."""
    if how == "another key":
        provider.key = OTHER_KEY
    elif how.startswith("HS256"):
        provider.header = {"alg": "HS256", "kid": "one"}
        provider.key = OctKey.import_key(base64.urlsafe_b64encode(32 * b"s"))
    elif how == "none":
        provider.token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."
    else:
        provider.token = {"no token": "x", "empty": " ", "dots": "..", "not ASCII": "é.é.é"}[how]


@pytest.mark.parametrize(
    "how",
    [
        "another key",
        "HS256 by our secret",
        "HS256 by its public key",
        "none",
        "no token",
        "empty",
        "dots",
        "not ASCII",
    ],
)
def test_a_forged_token_is_refused(provider: LyingProvider, how: str) -> None:
    forge(provider, how)
    with pytest.raises(NotSignedIn):
        identity(provider)


@pytest.mark.parametrize(
    "answer",
    [
        {"state": "other"},
        {"state": ""},
        {"state": "\udcff"},
        {"iss": "https://other.example.org"},
        {"error": "access_denied"},
    ],
)
def test_an_answer_that_is_not_ours_is_refused(provider: LyingProvider, answer: dict[str, str]) -> None:
    with pytest.raises(NotSignedIn):
        identity(provider, **answer)


def test_a_provider_that_says_who_it_is_has_to_say_it_each_time(provider: LyingProvider) -> None:
    provider.metadata["authorization_response_iss_parameter_supported"] = True  # type: ignore[assignment]
    identity(provider, iss=provider.url)
    with pytest.raises(NotSignedIn):
        identity(provider)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("issuer", "https://other.example.org"),
        ("token_endpoint", None),
        ("token_endpoint", "http://203.0.113.1/token"),
        ("jwks_uri", "file:///etc/passwd"),
    ],
)
def test_a_provider_that_is_another_or_half_of_one_is_not_asked(
    provider: LyingProvider, field: str, value: str | None
) -> None:
    provider.metadata[field] = value  # type: ignore[assignment]
    with pytest.raises((Unavailable, Invalid)):
        identity(provider)


def test_secrets_are_not_sent_to_a_provider_without_https() -> None:
    with pytest.raises(Invalid):
        Provider(OpenId("http://id.example.org", "market", "http://127.0.0.1"))


def test_a_provider_that_does_not_answer_is_said(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    known = OpenId(f"http://127.0.0.1:{port}", "market", "http://127.0.0.1")
    with RunningMarketplace(tmp_path, openid=known) as market:
        assert market.visitor().get("/sign-in/openid").status == 502
    with RunningMarketplace(tmp_path / "..") as market:
        assert market.visitor().get("/sign-in/openid").status == 404


def test_nobody_gets_the_account_of_another_by_its_name(database: Database) -> None:
    add_people(database)
    with database.writing() as session:
        for taken in ("alice", "team", "operator"):
            with pytest.raises(Conflict):
                people.sign_in_as(session, replace(ALICE, name=taken))
        assert people.sign_in_as(session, ALICE).viewer.name == "dora"
        people.change_user(session, "alice", {"subject": "https://id.example.org 8"})
        theirs = replace(ALICE, subject="https://id.example.org 8", name="renamed")
        assert people.sign_in_as(session, theirs).viewer.name == "alice"
        with pytest.raises(Conflict):
            people.change_user(session, "bob", {"subject": "https://id.example.org 8"})


def test_groups_and_admins_are_those_of_the_last_sign_in(database: Database) -> None:
    add_people(database)

    def sign_in(groups: frozenset[str] | None, admins: str = "admins") -> tuple[set[str], bool]:
        with database.writing() as session:
            viewer = people.sign_in_as(session, replace(ALICE, groups=groups), admins).viewer
            return set(viewer.groups), viewer.is_admin

    assert sign_in(frozenset({"team", "admins", "alice", "none"})) == ({"team"}, True)
    assert sign_in(None) == ({"team"}, True)
    assert sign_in(frozenset({"others"})) == ({"others"}, False)
    with database.writing() as session:
        people.disable(session, "dora")
    with pytest.raises(NotSignedIn):
        sign_in(frozenset())
