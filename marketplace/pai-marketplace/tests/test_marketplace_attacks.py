"""What somebody may send who means harm."""

import socket
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from pai_marketplace import exchange, people
from pai_marketplace.rate_limit import RateLimit
from pai_marketplace.settings import MOST_BODY
from tests.running_marketplace import RunningMarketplace, definition

_HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
_BOMB = "name: x\ntype: data\na0: &a0 [1]\n" + "".join(
    f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]\n" for each in range(1, 12)
)


def test_text_is_never_html_in_an_answer_of_the_apis(market: RunningMarketplace) -> None:
    fields = {"title": _HOSTILE, "summary": _HOSTILE, "description": _HOSTILE, "note": _HOSTILE}
    assert market.publish(definition(), tags=["<b>"], **fields).status == 201
    for path in (
        "/v1/index.json",
        "/v1/items/alice/mnist.json",
        "/v1/items/alice/mnist/1.0.yaml",
        "/api/items",
        f"/v1/search?q={quote(_HOSTILE)}",
        f"/v1/items/{quote(_HOSTILE, safe='')}/x.json",
    ):
        answer = market.call("GET", path)
        assert "html" not in answer.headers.get("content-type", ""), path
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("text", ["' OR 1=1 --", "%", "_", "\\", "'; DROP TABLE items; --", "\0", "a\0b"])
def test_queries_are_no_sql(market: RunningMarketplace, text: str) -> None:
    market.publish(definition())
    for parameter in ("q", "type", "owner", "author", "tags", "order"):
        answer = market.call("GET", f"/v1/search?{parameter}={quote(text)}")
        assert answer.status == 200
        assert answer.json["total"] in ((1,) if parameter == "order" or text == "\0" else (0,)), parameter
    assert market.call("GET", f"/api/items/{quote(text, safe='')}").status == 404
    assert market.names("/v1/search?q=mnist") == ["alice/mnist"]


def test_an_item_of_one_group_is_nothing_to_another(market: RunningMarketplace) -> None:
    published = market.publish(definition(), owner="team", visibility="groups", groups=["team"])
    digest = published.json["digest"][7:]
    id_ = market.call("GET", "/v1/items/team/mnist.json", by="alice").json["id"]
    assert (
        market.publish(definition("other", more="require: [marketplace://name/team/mnist]\n"), "bob").status
        == 201
    )
    for method, path, body in (
        ("GET", "/v1/items/team/mnist.json", None),
        ("GET", "/v1/items/team/mnist/1.0.yaml", None),
        ("GET", f"/v1/sha256/{digest}.yaml", None),
        ("GET", f"/api/items/{id_}", None),
        ("GET", f"/api/items/{id_}/tag", None),
        ("PATCH", "/v1/items/team/mnist.json", {"visibility": "public"}),
        ("DELETE", "/v1/items/team/mnist.json", None),
        ("PUT", f"/api/items/{id_}", {"isPublic": True}),
        ("PUT", "/v1/items/team/mnist/star", None),
        ("POST", "/v1/items/team/mnist/use", None),
        ("PUT", "/v1/items/team/mnist/versions/1.0/review", {"status": "approved"}),
    ):
        assert market.call(method, path, body, "bob").status == 404, path
    assert market.publish(definition(version="2.0"), "bob", owner="team").status == 403
    assert market.publish(definition("own"), "bob", owner="root").status == 403
    assert "team/mnist" not in market.names("/v1/search?q=mnist", "bob")
    assert market.names("/v1/search?q=mnist", "alice") == ["team/mnist"]


def test_a_change_by_a_browser_needs_the_token_of_its_pages(market: RunningMarketplace) -> None:
    market.publish(definition())
    with market.database.writing() as session:
        signed_in = people.sign_in(session, market.tokens["alice"])
    cookie = {"Cookie": f"{exchange.COOKIE}={signed_in.secret}"}
    at = "/v1/items/alice/mnist.json"
    assert market.call("GET", at, headers=cookie).status == 200
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": people.csrf_token("other")}):
        assert market.call("DELETE", at, headers={**cookie, **headers}).status == 403
    # A form of another site, whose field nobody of the API checks.
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert market.call("DELETE", at, b"x=1", headers={**cookie, **form}).status == 403
    assert market.call("GET", at).status == 200
    assert market.call("DELETE", at, headers={**cookie, "X-CSRF-Token": signed_in.csrf}).status == 204


@pytest.mark.parametrize(
    ("text", "code"),
    [(_BOMB, "too-large"), ("[" * 5000, "too-deep"), ("a: !!python/object:os.system x", "wrong-tag")],
)
def test_documents_that_would_take_all_memory(market: RunningMarketplace, text: str, code: str) -> None:
    answer = market.publish(text)
    assert answer.status == 400
    assert answer.json["problems"], code


def test_bodies_beyond_the_limit(market: RunningMarketplace) -> None:
    assert market.call("POST", "/v1/items", b" " * (MOST_BODY + 1), "alice").status == 413
    assert market.publish("# " + "x" * (300 * 1024)).status == 400
    for body in (b"[" * 100_000, b"[]", b"{", b'{"content": 1}', b'{"content": "\\ud800"}', b"\xff"):
        assert market.call("POST", "/v1/items", body, "alice").status == 400
    assert market.publish(definition(), title="x" * 1000).status == 400
    assert market.publish(definition(), tags=["x"] * 2 + [str(each) for each in range(100)]).status == 400


def test_slow_clients_keep_nobody_waiting(market: RunningMarketplace) -> None:
    address = urlsplit(market.url)
    slow = [socket.create_connection((str(address.hostname), address.port or 0)) for _ in range(100)]
    for each in slow:
        each.sendall(b"POST /v1/items HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert market.publish(definition()).status == 201
    for each in slow:
        each.close()


def test_tokens_that_are_none(market: RunningMarketplace) -> None:
    for token in ("x", "paim_" + "a" * 43, market.tokens["alice"] + "a", market.tokens["alice"].lower()):
        answer = market.call("GET", "/v1/index.json", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert token.encode() not in answer.body
    with market.database.writing() as session:
        reading, read_only = people.add_token(session, "root", ["read"])
        _, publishing = people.add_token(session, "root", ["read", "publish"])
        _, old = people.add_token(session, "root", ["read"], days=-1)
    market.tokens = {**market.tokens, "read_only": read_only, "publishing": publishing, "old": old}
    assert market.publish(definition(), by="read_only", owner="root").status == 403
    assert market.publish(definition(), by="publishing", owner="alice").status == 403
    assert market.call("GET", "/v1/audit", by="publishing").status == 403
    assert market.call("GET", "/v1/audit", by="root").status == 200
    assert market.call("GET", "/health", by="old").status == 401
    with market.database.writing() as session:
        people.revoke(session, reading.id)
    assert market.call("GET", "/v1/index.json", by="read_only").status == 401
    with market.database.writing() as session:
        people.disable(session, "alice")
    assert market.call("GET", "/v1/index.json", by="alice").status == 401


def test_a_marketplace_that_nobody_else_may_read(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path, anonymous=False) as market:
        for path in ("/v1/index.json", "/api/items", "/v1/search", "/metrics"):
            assert market.call("GET", path).status == 401
            assert market.call("GET", path, by="bob").status == 200


def test_too_many_requests(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path, writes_per_minute=2) as market:
        statuses = [market.publish(definition(version=f"1.{each}")).status for each in range(3)]
        assert statuses[:2] == [201, 201]
        assert statuses[2] in (201, 429)  # the bucket fills while a slow machine works
        assert market.call("GET", "/v1/index.json").status == 200
    seconds = [0.0]
    limit = RateLimit(60, lambda: seconds[0])
    assert [limit.admits("a") for _ in range(61)] == [True] * 60 + [False]
    assert limit.admits("b")
    seconds[0] = 1.0
    assert [limit.admits("a"), limit.admits("a")] == [True, False]


def test_metrics_count_what_was_answered(market: RunningMarketplace) -> None:
    market.call("GET", "/health")
    assert market.call("BREW", "/health").status == 405
    text = market.call("GET", "/metrics").body.decode()
    assert 'pai_marketplace_requests_total{method="GET",status="200"} 1.0' in text
    assert 'method="other",status="405"' in text
