"""OpenPAI's REST, call by call as its web client makes them."""

import json
from typing import Any

import pytest

from tests.running_marketplace import RunningMarketplace
from tests.support import job


def _item(name: str = "My data", author: str = "alice", **fields: Any) -> dict[str, Any]:
    """What the portal sends."""
    return {
        "name": name,
        "author": author,
        "type": "template",
        "categories": [],
        "tags": ["vision"],
        "summary": "short",
        "description": "# long",
        "isPublic": True,
        "isPrivate": False,
        "groupList": [],
        "status": "approved",
        "protocol": json.dumps(job()),
        **fields,
    }


def test_each_call_of_the_client(market: RunningMarketplace) -> None:
    created = market.call("POST", "/api/items", _item(), "alice")
    assert (created.status, list(created.json)) == (201, ["id"])
    at = f"/api/items/{created.json['id']}"
    found = market.call("GET", at).json
    assert found["protocol"] == json.dumps(job())
    expected = {
        "name": "My data",
        "author": "alice",
        "type": "template",
        "tags": ["vision"],
        "isPublic": True,
        "status": "approved",
        "useNumber": 0,
        "description": "# long",
    }
    assert expected.items() <= found.items()
    for query, count in (
        ("", 1),
        ("?name=My%20data", 1),
        ("?name=other", 0),
        ("?author=alice&type=template", 1),
        ("?author=bob", 0),
        ("?keyword=short", 1),
        ("?keyword=nothing", 0),
        ("?tag=vision", 1),
        ("?tag=vision,text", 0),
        ("?category=none", 0),
        ("?source=pai", 0),
        ("?source=marketplace", 1),
    ):
        assert len(market.call("GET", f"/api/items{query}").json) == count, query
    assert market.call("PUT", at, {**found, "summary": "new", "useNumber": 99}, "alice").status == 200
    after = market.call("GET", at).json
    assert (after["summary"], after["useNumber"]) == ("new", 0)
    for kind in ("tag", "category"):
        assert market.call("POST", f"{at}/{kind}/more", None, "alice").status == 201
        assert "more" in market.call("GET", f"{at}/{kind}").json
        assert market.call("DELETE", f"{at}/{kind}/more", None, "alice").status == 200
        assert market.call("DELETE", f"{at}/{kind}/more", None, "alice").status == 404
    assert [each["name"] for each in market.call("GET", "/api/tags").json] == ["vision"]
    assert market.call("GET", "/api/tags/vision").json["items"] == 1
    assert market.call("GET", "/api/categories/none").status == 404
    assert market.call("DELETE", at, None, "bob").status == 403
    assert market.call("DELETE", at, None, "alice").status == 200
    assert market.call("GET", at).status == 404


@pytest.mark.parametrize(
    ("sent", "by", "status"),
    [
        (_item(protocol=""), "alice", 400),
        (_item(author=""), "alice", 400),
        (_item(protocol="type: job\nname: x"), "alice", 400),
        (_item(author="bob"), "alice", 403),
        (_item(), "", 401),
        (_item(categories=["official example"]), "alice", 403),
        (_item(categories=["official example"], author="root"), "root", 201),
    ],
)
def test_what_is_refused(market: RunningMarketplace, sent: dict[str, Any], by: str, status: int) -> None:
    assert market.call("POST", "/api/items", sent, by).status == status


def test_an_item_keeps_its_author_and_its_versions(market: RunningMarketplace) -> None:
    id_ = market.call("POST", "/api/items", _item(), "alice").json["id"]
    at = f"/api/items/{id_}"
    assert market.call("PUT", at, _item(author="bob"), "alice").status == 403
    assert market.call("PUT", at, _item(), "bob").status == 403
    changed = json.dumps({**job(), "name": "changed"})
    assert market.call("PUT", at, {"protocol": changed}, "alice").status == 200
    assert market.call("GET", at).json["protocol"] == changed
    assert len(market.call("GET", "/v1/items/alice/My-data.json").json["versions"]) == 2


def test_names_need_not_be_unique(market: RunningMarketplace) -> None:
    for _ in range(2):
        assert market.call("POST", "/api/items", _item(), "alice").status == 201
    assert [each["name"] for each in market.call("GET", "/api/items").json] == ["My data"] * 2
