"""A marketplace that answers at an address, in a thread of the tests, and what publishes there."""

import json
import threading
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import uvicorn

from pai_marketplace import people
from pai_marketplace.app import make_app
from pai_marketplace.database import Database
from pai_marketplace.settings import Settings
from tests.support import until


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    token: str = "",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request; a body that is no bytes is sent as JSON."""
    address = urlsplit(url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=60)
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    all_headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, sent, {**all_headers, **(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def add_people(database: Database) -> dict[str, str]:
    """Some people; returns their tokens. alice is in the group team, bob in others, root is an admin."""
    tokens = {}
    with database.writing() as session:
        for name in ("alice", "bob", "carol", "root"):
            people.add_account(session, name, admin=name == "root", reviewer=name == "carol")
            _, tokens[name] = people.add_token(session, name, people.SCOPES)
        for group, member in (("team", "alice"), ("others", "bob")):
            people.add_account(session, group, group=True)
            people.add_member(session, group, member)
    return tokens


def definition(
    name: str = "mnist",
    version: str = "1.0",
    command: str = "echo hi",
    more: str = "",
    kind: str = "data",
) -> str:
    """The text of a definition."""
    return (
        f"name: {name}\ntype: {kind}\nversion: '{version}'\nplugin: cmd\nplugin_params:\n"
        f"  callbacks: [{{event: taskStarts, commands: ['{command}']}}]\n{more}"
    )


_Server = TypeVar("_Server", bound="RunningMarketplace")


class RunningMarketplace:
    """The application on a database, with some people in it."""

    def __init__(self, url: str, **settings: Any) -> None:
        limits = {"reads_per_minute": 10**6, "writes_per_minute": 10**6}
        self.settings = Settings(url, **{**limits, **settings})
        self.database = Database(url)

    def __enter__(self: _Server) -> _Server:  # noqa: PYI019 - Python 3.10 has no Self
        self.database.upgrade()
        self.tokens = add_people(self.database)
        config = uvicorn.Config(make_app(self.settings), port=0, log_config=None, access_log=False, ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive())
        (server,) = self._server.servers
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.database.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        by: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, by one of the people or by nobody."""
        return request(self.url, method, path, body, self.tokens.get(by, ""), headers)

    def publish(self, text: str, by: str = "alice", **fields: Any) -> Answer:
        """What the server answers to a publication."""
        return self.call("POST", "/v1/items", {"content": text, **fields}, by)

    def names(self, path: str, by: str = "") -> Sequence[str]:
        """The names of the items that a search finds."""
        return [f"{each['owner']}/{each['name']}" for each in self.call("GET", path, None, by).json["items"]]
