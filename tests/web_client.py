"""How tests ask a server over HTTP: by single requests, or as a browser without scripts does."""

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from html import unescape
from http.client import HTTPConnection
from http.cookiejar import CookieJar
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPCookieProcessor,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)


class Answer(NamedTuple):
    """The names of `headers` are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


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
        return Answer(answer.status, _lower(answer.headers), answer.read())
    finally:
        connection.close()


_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True)
class Visitor:
    """A browser without scripts, at a server; it keeps cookies, and follows no redirect."""

    url: str
    cookies: CookieJar = field(default_factory=CookieJar)

    def get(self, path: str) -> Answer:
        """What the server answers; a path may be a whole URL, also that of another server."""
        return self._asked(Request(self._at(path)))  # noqa: S310 - of the test

    def post(self, path: str, page: str = "", headers: Mapping[str, str] = {}, /, **form: str) -> Answer:
        """Send a form as the page at a path has it; that of another page where one is given."""
        if "csrf" not in form:
            form["csrf"] = self.csrf(page or path)
        return self._asked(Request(self._at(path), urlencode(form).encode(), dict(headers)))  # noqa: S310 - as above

    def csrf(self, page: str) -> str:
        found = re.search('name="csrf" value="([^"]+)"', self.get(page).text)
        assert found
        return unescape(found[1])

    def _at(self, path: str) -> str:
        return path if path.startswith("http://") else self.url + path

    def _asked(self, request: Request) -> Answer:
        try:
            with self._opener.open(request, timeout=60) as answer:
                return Answer(answer.status, _lower(answer.headers), answer.read())
        except HTTPError as error:
            with error:
                return Answer(error.code, _lower(error.headers), error.read())

    @property
    def _opener(self) -> OpenerDirector:
        # Without a handler for HTTPS each opener reads this machine's certificates, which takes 25 ms.
        return build_opener(HTTPCookieProcessor(self.cookies), _Stay, HTTPSHandler(context=_NO_TLS))


def _lower(headers: "Message[str, str]") -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}
