"""The real server of the marketplace in this process, and a visitor who reads its pages without scripts."""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import (
    HTTPCookieProcessor,
    HTTPRedirectHandler,
    OpenerDirector,
    Request,
    build_opener,
)

import uvicorn

from pai_marketplace import people, publishing
from pai_marketplace.app import make_app
from pai_marketplace.database import Database
from pai_marketplace.publishing import About, Publication
from pai_marketplace.settings import Settings
from pai_marketplace.viewer import Viewer
from tests.support import until

ADA = Viewer("ada", frozenset({"vision"}), can_write=True)


def definition(name: str = "mnist", version: str = "1.0", **fields: str) -> str:
    more = "".join(f"{key}: {text}\n" for key, text in fields.items())
    return f"""name: {name}
type: data
version: "{version}"
{more}plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands: ["echo {{{{ words }}}} {{{{ count }}}} > said"]
template_variables:
  - {{name: words, type: string, description: What is said.}}
  - {{name: count, type: integer, default: 3}}
"""


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


@dataclass(frozen=True)
class Market:
    """A server at `url`; `tokens` are those of its users ada, ben (a reviewer) and eve."""

    url: str
    database: Database
    settings: Settings
    tokens: Mapping[str, str]

    def publish(self, text: str, owner: str = "ada", **about: Any) -> None:
        with self.database.writing() as session:
            given = Publication(owner, text, about=About(**about))
            publishing.publish(session, ADA, self.settings, given)

    def visitor(self, name: str = "") -> "Visitor":
        visitor = Visitor(self.url)
        if name:
            answer = visitor.post("/sign-in", token=self.tokens[name])
            assert answer.status == 303, answer.text
        return visitor


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Market]:
    at = f"sqlite:///{folder / 'market.db'}"
    given = Settings(at, reads_per_minute=1_000_000, writes_per_minute=1_000_000, **settings)
    database = Database(given.database)
    database.upgrade()
    with database.writing() as session:
        people.add_account(session, "vision", group=True)
        for name in ("ada", "ben", "eve"):
            people.add_account(session, name, reviewer=name == "ben")
        people.add_member(session, "vision", "ada")
        tokens = {name: people.add_token(session, name, people.SCOPES)[1] for name in ("ada", "ben", "eve")}
    server = uvicorn.Server(uvicorn.Config(make_app(given), port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Market(f"http://127.0.0.1:{port}", database, given, tokens)
    finally:
        server.should_exit = True
        thread.join()
        database.close()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True)
class Visitor:
    """A browser without scripts, at a server; it keeps cookies, and follows no redirect."""

    url: str
    cookies: CookieJar = field(default_factory=CookieJar)

    def get(self, path: str) -> Answer:
        return self._asked(Request(self.url + path))  # noqa: S310 - of the test

    def post(self, path: str, page: str = "", headers: Mapping[str, str] = {}, /, **form: str) -> Answer:
        """Send a form as the page at a path has it; that of another page where one is given."""
        if "csrf" not in form:
            form["csrf"] = self.csrf(page or path)
        return self._asked(Request(self.url + path, urlencode(form).encode(), dict(headers)))  # noqa: S310 - as above

    def csrf(self, page: str) -> str:
        found = re.search('name="csrf" value="([^"]+)"', self.get(page).text)
        assert found
        return unescape(found[1])

    def _asked(self, request: Request) -> Answer:
        try:
            with self._opener.open(request, timeout=60) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read().decode())
        except HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read().decode())

    @property
    def _opener(self) -> OpenerDirector:
        return build_opener(HTTPCookieProcessor(self.cookies), _Stay)
