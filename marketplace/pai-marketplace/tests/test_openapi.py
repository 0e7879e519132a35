"""The OpenAPI document: it is valid, it has all routes, and each of them answers as it says."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from pai_marketplace import own_api
from pai_marketplace.app import make_app
from pai_marketplace.settings import Settings
from tests.running_marketplace import RunningMarketplace, definition
from tests.support import job
from tests.web_client import Answer

ITEM = "/v1/items/{owner}/{name}"
OLD = "/api/items/{id}"


class Documented:
    """A marketplace whose answers are compared with its document; `called` are the operations so far."""

    def __init__(self, market: RunningMarketplace) -> None:
        self.market = market
        self.document = market.call("GET", "/v1/openapi.json").json
        self.called: set[tuple[str, str]] = set()

    def call(self, method: str, path: str, body: Any = None, by: str = "alice", **values: Any) -> Answer:
        """Call an operation by its path in the document."""
        operation = self.document["paths"][path][method.lower()]
        self.called.add((method, path))
        answer = self.market.call(method, path.format(**values), body, by)
        status = str(answer.status)
        described = operation["responses"].get(status, operation["responses"]["default"])
        contents: Mapping[str, Any] = described.get("content", {})
        if not contents:
            assert answer.body == b"", path
        for media, content in contents.items():
            assert answer.headers["content-type"].partition(";")[0] == media, path
            if media == "application/json":
                self._check(answer.json, content["schema"])
        return answer

    def _check(self, value: Any, schema: Mapping[str, Any]) -> None:
        schemas = self.document["components"]["schemas"]
        strict = {name: {**each, "additionalProperties": False} for name, each in schemas.items()}
        Draft202012Validator({**schema, "components": {"schemas": strict}}).validate(value)


@pytest.fixture
def documented(market: RunningMarketplace, monkeypatch: pytest.MonkeyPatch) -> Documented:
    monkeypatch.setattr(own_api, "PER_INDEX", 1)
    return Documented(market)


def test_the_document_is_valid(documented: Documented) -> None:
    validate(documented.document)


def test_every_route_of_the_apis_is_in_the_document(documented: Documented) -> None:
    served = {
        route.path_format
        for route in make_app(Settings("sqlite://")).routes
        if isinstance(route, Route) and route.path.split("/")[1] in ("api", "v1", "health", "metrics")
    }
    assert served - {"/api/{rest}", "/v1/{rest}"} == set(documented.document["paths"])


def test_each_operation_answers_as_the_document_says(documented: Documented) -> None:
    call = documented.call
    own: dict[str, Any] = {"owner": "alice", "name": "mnist"}
    sent = {"content": definition(more="require: [marketplace://name/x/y]\n"), "tags": ["a"]}
    assert call("POST", "/v1/items", sent).status == 201
    assert call("POST", "/v1/items", sent).status == 200
    assert call("POST", "/v1/items", {"content": "name: ["}).status == 400
    assert call("POST", "/v1/items", {"content": definition("other"), "owner": "team"}).status == 201
    assert "next" in call("GET", "/v1/index.json").json
    assert call("GET", "/v1/index-{page}.json", page=2).status == 200
    assert call("GET", "/v1/index-{page}.json", page=3).status == 404
    assert call("GET", "/v1/search").json["total"] == 2
    assert call("GET", f"{ITEM}.json", **own).status == 200
    assert call("GET", f"{ITEM}/{{version}}.yaml", version="1.0", **own).status == 200
    digest = documented.market.call("GET", "/v1/items/alice/mnist.json").json["versions"][0]["digest"][7:]
    assert call("GET", "/v1/sha256/{digest}.yaml", digest=digest).status == 200
    assert call("PATCH", f"{ITEM}.json", {"title": "Digits"}, **own).json["title"] == "Digits"
    for method in ("PUT", "DELETE"):
        assert call(method, f"{ITEM}/star", **own).status == 200
        assert call(method, f"{ITEM}/deprecation", {"replacedBy": "team/other"}, **own).status == 204
    for method in ("PUT", "DELETE"):
        assert call(method, f"{ITEM}/official", **own).status == 403
        assert call(method, f"{ITEM}/official", by="root", **own).status == 204
    assert call("POST", f"{ITEM}/use", **own).status == 204
    review = f"{ITEM}/versions/{{version}}/review"
    assert call("PUT", review, {"status": "approved"}, "carol", version="1.0", **own).status == 200
    assert call("GET", "/v1/audit", by="root").status == 200
    assert call("DELETE", f"{ITEM}.json", **own).status == 204

    template = {"author": "alice", "name": "A job", "protocol": json.dumps(job()), "tags": ["b"]}
    id_ = call("POST", "/api/items", template).json["id"]
    assert len(call("GET", "/api/items").json) == 2
    assert call("GET", OLD, id=id_).json["name"] == "A job"
    assert call("PUT", OLD, {"summary": "short"}, id=id_).status == 200
    for one, many in (("tag", "tags"), ("category", "categories")):
        assert call("POST", f"{OLD}/{one}/{{label}}", id=id_, label="x").status == 201
        assert "x" in call("GET", f"{OLD}/{one}", id=id_).json
        assert "x" in [each["name"] for each in call("GET", f"/api/{many}").json]
        assert call("GET", f"/api/{many}/{{label}}", label="x").json["items"] == 1
        assert call("DELETE", f"{OLD}/{one}/{{label}}", id=id_, label="x").status == 200
    assert call("DELETE", OLD, id=id_).status == 200
    for path in ("/health", "/metrics", "/v1/openapi.json"):
        assert call("GET", path).status == 200
    paths = documented.document["paths"]
    assert documented.called == {(method.upper(), path) for path, each in paths.items() for method in each}


def test_no_parameter_and_no_field_is_read_that_the_document_does_not_have(documented: Documented) -> None:
    operation = documented.document["paths"]["/v1/search"]["get"]
    assert {each["name"] for each in operation["parameters"]} == {
        *("q", "type", "owner", "author", "tags", "order", "offset", "limit")
    }
    body = documented.document["components"]["schemas"]["PublishBody"]
    for field, schema in body["properties"].items():
        wrong = {} if schema["anyOf"][0]["type"] == "string" else "x"
        answer = documented.market.call("POST", "/v1/items", {"content": definition(), field: wrong}, "alice")
        assert answer.status == 400, field
