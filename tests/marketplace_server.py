"""A stand-in of OpenPAI's marketplace server: as far as readers and authors of items meet it.

The real one is a program in Node with a PostgreSQL behind it, and asks the platform who a token belongs to;
none of these can be had where the tests run. The routes, the fields of an item, who sees which, what it
refuses, and the statuses are those of the real one, as it answered when it was asked.
"""

import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import yaml
from jsonschema import Draft7Validator

from tests.local_server import LocalServer
from tests.support import job

USERS = {"alice-token": "alice", "bob-token": "bob", "admin-token": "admin"}
GROUPS = {"alice": ["vision"], "bob": [], "admin": []}
BASE = "/marketplace"


def item(name: str, protocol: str, **fields: Any) -> dict[str, Any]:
    """An item as the server gives it; public and approved unless `fields` say otherwise."""
    return {
        "id": str(uuid4()),
        "name": name,
        "author": "alice",
        "type": "script",
        "source": "marketplace",
        "isPublic": True,
        "isPrivate": False,
        "groupList": [],
        "dataType": None,
        "dataUrl": None,
        "categories": [],
        "tags": [],
        "summary": "",
        "description": "",
        "protocol": protocol,
        "useNumber": 0,
        "starNumber": 0,
        "status": "approved",
        "createdAt": "2021-03-01T00:00:00.000Z",
        **fields,
    }


_NAME: Final = {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$", "maxLength": 255}
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_WHOLE: Final = {"type": "integer"}
_ABOUT: Final = {
    "protocolVersion": {"enum": ["2", 2]},
    "name": _NAME,
    "version": {"type": ["string", "number"]},
    "contributor": _TEXT,
    "description": _TEXT,
}


def _prerequisite(kinds: Sequence[str], uri: Mapping[str, Any], *required: str) -> dict[str, Any]:
    properties = {**_ABOUT, "type": {"enum": kinds}, "plugin": _TEXT, "require": _TEXTS, "uri": uri}
    return {"type": "object", "required": ["name", "type", *required], "properties": properties}


_IMAGE: Final = _prerequisite(["dockerimage"], _TEXT, "uri")
_IMAGE["properties"] = {**_ABOUT, "type": {"enum": ["dockerimage"]}, "auth": {"type": "object"}, "uri": _TEXT}
_IMAGE["additionalProperties"] = False

_ROLE: Final = {
    "type": "object",
    "required": ["dockerImage", "resourcePerInstance", "commands"],
    "additionalProperties": False,
    "properties": {
        "protocolVersion": _ABOUT["protocolVersion"],
        "instances": {**_WHOLE, "minimum": 1},
        "completion": {"type": "object"},
        "taskRetryCount": _WHOLE,
        "prerequisites": _TEXTS,
        **dict.fromkeys(("dockerImage", "data", "output", "script"), _TEXT),
        "extraContainerOptions": {"type": "object"},
        "resourcePerInstance": {
            "type": "object",
            "required": ["cpu", "memoryMB", "gpu"],
            "additionalProperties": False,
            "properties": {"cpu": _WHOLE, "memoryMB": _WHOLE, "gpu": _WHOLE, "ports": {"type": "object"}},
        },
        "commands": {**_TEXTS, "minItems": 1},
    },
}

_JOB: Final = Draft7Validator(
    {
        "type": "object",
        "required": ["protocolVersion", "name", "type", "taskRoles"],
        "additionalProperties": False,
        "properties": {
            **_ABOUT,
            "type": {"enum": ["job"]},
            "prerequisites": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "oneOf": [
                        _prerequisite(["script", "output"], _TEXT),
                        _prerequisite(["data"], _TEXTS),
                        _IMAGE,
                    ]
                },
            },
            **{name: {"type": "object"} for name in ("parameters", "secrets", "defaults", "extras")},
            "jobRetryCount": {**_WHOLE, "minimum": 0},
            "taskRoles": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "patternProperties": {"^[a-zA-Z_][a-zA-Z0-9_]*$": _ROLE},
            },
            "deployments": {"type": "array", "minItems": 1},
        },
    }
)
"""The schema of jobs that the server has, which is of OpenPAI 1.8 and older."""

_ENUMS: Final = {"status": (None, "pending", "approved", "rejected"), "source": ("marketplace", "pai")}

Answer = tuple[int, Any]
"""Status, and a document, or a text, which is what errors are."""


class MarketplaceServer(LocalServer):
    """A context manager. `requests` has the path of each request, and the token that it showed."""

    def __init__(self, *items: Mapping[str, Any]) -> None:
        super().__init__(_Handler)
        self.publish(*items)
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"{super().url}{BASE}"

    def publish(self, *items: Mapping[str, Any]) -> None:
        """Have these items only, stored as authors can: what is no whole job, by a change of one that is."""
        self.items: list[dict[str, Any]] = []
        for each in items:
            created, _ = self.create(each, each["author"])
            if created != 201:
                assert self.create({**each, "protocol": json.dumps(job())}, each["author"])[0] == 201
                changed, _ = self.change(each["id"], each, each["author"])
                assert changed == 200

    def create(self, published: Any, user: str) -> Answer:
        """``POST``: a whole job, of one's own."""
        if not isinstance(published, dict) or published.get("author") is None:
            return 400, "Author info is missing in require body"
        if published["author"] != user:
            return 403, f"You are not allowed to create item with author {published['author']}"
        if not _is_job(published.get("protocol")):
            return 400, "The protocol is not valid"
        if not _fits(published):
            return 500, "Database error"
        if any(each["id"] == published.get("id") for each in self.items):
            return 400, "The item has already exists"
        self.items.append({**item("", ""), "id": str(uuid4()), "status": None, **published})
        return 201, {"id": self.items[-1]["id"]}

    def change(self, id_: str, fields: Any, user: str) -> Answer:
        """``PUT``: any fields of one's own, whatever is in them, the author too."""
        found = self._item(id_)
        if found is None:
            return (404, "Result not found") if user == "admin" else (500, "Unexpected internal error")
        if user not in ("admin", found["author"]):
            return 403, f"The access to the item {id_} is forbidden"
        if fields.get("protocol", "") is None:
            return 400, "Database validation not passed"
        if not _fits(fields):
            return 500, "Database error"
        self.items[self.items.index(found)] = {**found, **fields, "id": id_}
        return 200, "updated"

    def answer(self, method: str, path: str, user: str, body: Any) -> Answer:
        """What is answered to a request for a path below the base."""
        parts = urlsplit(path)
        items_path, _, id_ = parts.path.removeprefix(f"{BASE}/api").removeprefix("/").partition("/")
        if not parts.path.startswith(f"{BASE}/api/") or items_path != "items":
            return 404, "not found"
        if method == "POST":
            return self.create(body, user)
        if method == "PUT":
            return self.change(unquote(id_), body, user)
        if not id_:
            return 200, self._listed(parse_qs(parts.query), user)
        found = self._item(unquote(id_))
        if found is None:
            return 404, "Result not found"
        return (200, found) if _sees(user, found) else (403, f"The access to the item {id_} is forbidden")

    def _item(self, id_: str) -> dict[str, Any] | None:
        return next((each for each in self.items if each["id"] == id_), None)

    def _listed(self, query: Mapping[str, Sequence[str]], user: str) -> list[Mapping[str, Any]]:
        wanted = {
            key: values[0] for key, values in query.items() if key in ("name", "author", "type", "source")
        }
        return [
            each
            for each in self.items
            if _lists(user, each) and all(each[key] == value for key, value in wanted.items())
        ]


class _Handler(BaseHTTPRequestHandler):
    server: MarketplaceServer

    def do_GET(self) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        self.server.requests.append((self.path, token or None))
        user = USERS.get(token) if scheme == "Bearer" else None
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, document = 401, "Authentication token is missing or invalid"
        if user:
            status, document = self.server.answer(
                self.command, self.path, user, json.loads(body) if body else None
            )
        is_text = isinstance(document, str)
        answer = document.encode() if is_text else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{'text/html' if is_text else 'application/json'}; charset=utf-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_GET  # noqa: N815 - what the base class calls

    def log_message(self, *_: object) -> None:
        pass


def _is_job(protocol: Any) -> bool:
    try:
        return _JOB.is_valid(yaml.safe_load(protocol))
    except (yaml.YAMLError, AttributeError):
        return False


def _fits(fields: Mapping[str, Any]) -> bool:
    """Whether the database takes the fields."""
    return all(fields[name] in known for name, known in _ENUMS.items() if name in fields)


def _sees(user: str, each: Mapping[str, Any]) -> bool:
    """Whether a user may read an item by its id."""
    if each["isPublic"] or user in ("admin", each["author"]):
        return True
    return not each["isPrivate"] and bool(set(GROUPS[user]) & set(each["groupList"]))


def _lists(user: str, each: Mapping[str, Any]) -> bool:
    """Whether a list has it: what is for groups is in that of no user, by a mistake in a name."""
    return user == "admin" or each["isPublic"] or (each["isPrivate"] and user == each["author"])
