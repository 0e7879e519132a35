"""A stand-in of OpenPAI's marketplace server: as far as a reader of items meets it.

The real one is a program in Node with a PostgreSQL behind it, and asks the platform who a token belongs to;
none of these can be had where the tests run. The routes, the fields of an item, who sees which, and the
statuses are those of the real one.
"""

import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from tests.local_server import LocalServer

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


class MarketplaceServer(LocalServer):
    """A context manager. `requests` has the path of each request, and the token that it showed."""

    def __init__(self, *items: Mapping[str, Any]) -> None:
        super().__init__(_Handler)
        self.items = list(items)
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"{super().url}{BASE}"

    def answer(self, path: str, user: str) -> tuple[int, Any]:
        """Status and document for a path below the base."""
        parts = urlsplit(path)
        items_path, _, id_ = parts.path.removeprefix(f"{BASE}/api").removeprefix("/").partition("/")
        if not parts.path.startswith(f"{BASE}/api/") or items_path != "items":
            return 404, {"message": "not found"}
        if not id_:
            return 200, self._listed(parse_qs(parts.query), user)
        found = [each for each in self.items if each["id"] == unquote(id_)]
        if not found:
            return 404, {"message": f"Item {id_} not found."}
        return (200, found[0]) if _sees(user, found[0]) else (403, {"message": "User can't view this item."})

    def _listed(self, query: Mapping[str, Sequence[str]], user: str) -> list[Mapping[str, Any]]:
        wanted = {
            key: values[0] for key, values in query.items() if key in ("name", "author", "type", "source")
        }
        return [
            each
            for each in self.items
            if _sees(user, each) and all(each[key] == value for key, value in wanted.items())
        ]


class _Handler(BaseHTTPRequestHandler):
    server: MarketplaceServer

    def do_GET(self) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        self.server.requests.append((self.path, token or None))
        user = USERS.get(token) if scheme == "Bearer" else None
        status, document = (
            self.server.answer(self.path, user) if user else (401, {"message": "Not authorized"})
        )
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _sees(user: str, each: Mapping[str, Any]) -> bool:
    if each["isPublic"] or user in ("admin", each["author"]):
        return True
    return not each["isPrivate"] and bool(set(GROUPS[user]) & set(each["groupList"]))
