"""A marketplace that answers at an address, in a thread of the tests, and what publishes there."""

import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import uvicorn

from pai_marketplace import people
from pai_marketplace.app import make_app
from pai_marketplace.database import Database
from pai_marketplace.settings import Settings
from tests.support import until
from tests.web_client import Answer, Visitor, request


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


@cache
def sqlite_file(*, people: bool = False) -> tuple[bytes, Mapping[str, str]]:
    """A database as it is after an upgrade, which takes long, and the tokens of the people in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "market.db")
        database = Database(f"sqlite:///{path}")
        database.upgrade()
        tokens = add_people(database) if people else {}
        database.close()
        return path.read_bytes(), tokens


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


def template(name: str = "mnist", version: str = "1.0", **fields: str) -> str:
    """The text of a definition with variables, and with more fields."""
    more = "".join(f"{key}: {text}\n" for key, text in fields.items())
    variables = (
        "template_variables:\n"
        "  - {name: words, type: string, description: What is said.}\n"
        "  - {name: count, type: integer, default: 3}\n"
    )
    return definition(name, version, "echo {{ words }} {{ count }} > said", more + variables)


WHOLE_JOB = """protocolVersion: 2
name: hello
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: "debian:12"}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 0}
    commands: [echo hello]
"""

_Server = TypeVar("_Server", bound="RunningMarketplace")


class RunningMarketplace:
    """The application on an SQLite database in a folder, with some people in it."""

    def __init__(self, folder: Path, port: int = 0, **settings: Any) -> None:
        limits = {"reads_per_minute": 10**6, "writes_per_minute": 10**6}
        self._file = folder / "market.db"
        self.settings = Settings(f"sqlite:///{self._file}", **{**limits, **settings})
        self.database = Database(self.settings.database)
        self._port = port

    def __enter__(self: _Server) -> _Server:  # noqa: PYI019 - Python 3.10 has no Self
        content, self.tokens = sqlite_file(people=True)
        with self._file.open("xb") as file:
            file.write(content)
        config = uvicorn.Config(
            make_app(self.settings), port=self._port, log_config=None, access_log=False, ws="none"
        )
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

    def visitor(self, name: str = "") -> Visitor:
        """A browser, in which one of the people or nobody is signed in."""
        visitor = Visitor(self.url)
        if name:
            answer = visitor.post("/sign-in", token=self.tokens[name])
            assert answer.status == 303, answer.text
        return visitor

    def names(self, path: str, by: str = "") -> Sequence[str]:
        """The names of the items that a search finds."""
        return [f"{each['owner']}/{each['name']}" for each in self.call("GET", path, None, by).json["items"]]
