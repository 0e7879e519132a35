"""Requests and answers: who asks, what is sent, and what refusals look like over HTTP."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pai_marketplace import people
from pai_marketplace.api_types import checked
from pai_marketplace.database import Database
from pai_marketplace.errors import Forbidden, Invalid, NotSignedIn, Refused, TooLarge
from pai_marketplace.settings import MOST_BODY, Settings
from pai_marketplace.viewer import ANYBODY, Viewer
from pai_task.record import record

COOKIE: Final = "pai_marketplace_session"
_BODY_SECONDS: Final = 30
_MOST_READ: Final = 8 * MOST_BODY
"""Bytes of a body that is too large that are read nevertheless: most clients listen only once all is sent."""
_SAFE: Final = ("GET", "HEAD", "OPTIONS")


@record(frozen=True)
class Exchange:
    """A request, of which everything has been read and who asks is known.

    `session` is the secret of a browser's session; empty for tokens and for nobody. `body` is bounded.
    """

    route: "ApiRoute"
    request: Request
    database: Database
    settings: Settings
    viewer: Viewer
    session: str
    body: bytes

    def path(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the query that the route has."""
        if name not in self.route.query:
            raise KeyError(name)
        return self.request.query_params.get(name, default).replace("\0", "")

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter of the query that is a number from 0 to `most`. Raises `Invalid`."""
        text = self.query(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
            raise Invalid(f"expected a number from 0 to {most} as {name}")
        return int(text)

    def sent(self) -> dict[str, Any]:
        """Return the fields of the body that the route has, None for missing ones. Raises `Invalid`."""
        try:
            data = json.loads(self.body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise Invalid("expected a JSON object as the body")
        return checked(self.route.body, data)


Handler = Callable[[Exchange], Any]


class ApiRoute(Route):
    """A route of an API, which is all that is documented of it.

    `handler` returns what is answered as JSON, None for nothing, or a `Response` of the type `media`; with
    its status, if `statuses` has several. It may raise `Refused`, and runs in a thread. The document of
    OpenAPI has its docstring and the type of its result, and the types of the `query` and of the fields of
    the `body`, a typed dictionary. No other parameter of the query, and no other field, can be read.
    """

    def __init__(
        self,
        path: str,
        handler: Handler,
        method: str = "GET",
        *,
        query: Mapping[str, type] = MappingProxyType({}),
        body: Any = None,
        statuses: Sequence[int] = (200,),
        media: str = "application/json",
    ) -> None:
        self.handler, self.method, self.query, self.body = handler, method, query, body
        self.statuses, self.media = statuses, media
        super().__init__(path, self._answer, methods=[method])

    async def _answer(self, request: Request) -> Response:
        try:
            body = b"" if request.method in _SAFE else await read_body(request)
            return await run_in_threadpool(_handled, self, request, body)
        except Refused as error:
            return refusal(error)


def refusal(error: Refused) -> Response:
    """Return the answer that something is refused."""
    document: dict[str, Any] = {"code": error.code, "message": str(error)}
    if isinstance(error, Invalid):
        document["problems"] = [each.to_json() for each in error.problems]
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, NotSignedIn) else {}
    return JSONResponse(document, error.status, headers)


def with_etag(request: Request, content: bytes, media_type: str, *, digest: str = "") -> Response:
    """Return a content with its ETag, or 304 if the client has it already."""
    etag = f'"sha256:{digest or sha256(content).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    wanted = request.headers.get("if-none-match", "")
    if wanted.strip() == "*" or etag in (each.strip().removeprefix("W/") for each in wanted.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def json_bytes(document: Any) -> bytes:
    """Return a document as JSON, the same bytes for the same document."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def who(session: Session, request: Request, settings: Settings) -> tuple[Viewer, str]:
    """Return who asks, by a token or the session of a browser, and the secret of that session.

    Raises `NotSignedIn` for a token that is not valid, and for nobody where nobody may read. A session that
    is not valid any more is nobody's.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer":
            raise NotSignedIn("expected Authorization: Bearer, with a token")
        return people.by_token(session, token.strip()), ""
    if secret := request.cookies.get(COOKIE):
        try:
            return people.by_session(session, secret).viewer, secret
        except NotSignedIn:
            pass
    if not settings.anonymous:
        raise NotSignedIn("sign in to read this marketplace")
    return ANYBODY, ""


def check_csrf(session: str, given: str) -> None:
    """Raise `Forbidden` unless a change by a browser's session comes from a page of it."""
    if session and not people.is_csrf_token(session, given):
        raise Forbidden("the form is not from a page of this session; load the page again")


def _handled(route: ApiRoute, request: Request, body: bytes) -> Response:
    database: Database = request.app.state.database
    settings: Settings = request.app.state.settings
    with database.reading() as session:
        viewer, secret = who(session, request, settings)
    if request.method not in _SAFE:
        check_csrf(secret, request.headers.get("x-csrf-token", ""))
    answer = route.handler(Exchange(route, request, database, settings, viewer, secret, body))
    if isinstance(answer, Response):
        return answer
    document, status = answer if isinstance(answer, tuple) else (answer, route.statuses[0])
    if document is None:
        return Response(status_code=status)
    if request.method in _SAFE:
        return with_etag(request, json_bytes(document), "application/json")
    return JSONResponse(document, status)


async def read_body(request: Request) -> bytes:
    """Return the body of a request, within the limits of size and time."""
    length = request.headers.get("content-length", "0")
    too_large = TooLarge(f"expected at most {MOST_BODY // 1024} KiB, found more")
    if length.isdigit() and int(length[:20]) > _MOST_READ:
        raise too_large
    chunks, size = [], 0

    async def read() -> None:
        nonlocal size
        async for chunk in request.stream():
            size += len(chunk)
            if size > _MOST_READ:
                break
            if size <= MOST_BODY:
                chunks.append(chunk)

    try:
        await asyncio.wait_for(read(), _BODY_SECONDS)
    except asyncio.TimeoutError:
        raise Refused(f"expected the whole request within {_BODY_SECONDS} seconds") from None
    if size > MOST_BODY:
        raise too_large
    return b"".join(chunks)
