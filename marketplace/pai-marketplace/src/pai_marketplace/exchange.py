"""Requests and answers: who asks, what is sent, and what refusals look like over HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pai_marketplace import people
from pai_marketplace.database import Database
from pai_marketplace.errors import Forbidden, Invalid, NotSignedIn, Refused, TooLarge
from pai_marketplace.settings import MOST_BODY, Settings
from pai_marketplace.viewer import ANYBODY, Viewer
from pai_runtime.document.problems import Problem
from pai_runtime.task.record import record

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
        """Return a parameter of the query."""
        return self.request.query_params.get(name, default).replace("\0", "")

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter of the query that is a number from 0 to `most`. Raises `Invalid`."""
        text = self.query(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
            raise Invalid(f"expected a number from 0 to {most} as {name}")
        return int(text)

    def json(self) -> dict[str, Any]:
        """Return the body, which has to be a JSON object. Raises `Invalid`."""
        try:
            data = json.loads(self.body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise Invalid("expected a JSON object as the body")
        return data


Handler = Callable[[Exchange], Response]


def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Return a Starlette endpoint of a handler, which runs in a thread, and may raise `Refused`."""

    async def answer(request: Request) -> Response:
        try:
            body = b"" if request.method in _SAFE else await read_body(request)
            return await run_in_threadpool(_handled, handler, request, body)
        except Refused as error:
            return refusal(error)

    answer.__name__ = getattr(handler, "__name__", "endpoint")
    return answer


def refusal(error: Refused) -> Response:
    """Return the answer that something is refused."""
    document: dict[str, Any] = {"code": error.code, "message": str(error)}
    if isinstance(error, Invalid):
        document["problems"] = [problem_json(each) for each in error.problems]
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, NotSignedIn) else {}
    return JSONResponse(document, error.status, headers)


def problem_json(problem: Problem) -> dict[str, Any]:
    """Return a problem of a definition or job as JSON: code, message, line, column, field, severity."""
    return problem.to_json()


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


def _handled(handler: Handler, request: Request, body: bytes) -> Response:
    database: Database = request.app.state.database
    settings: Settings = request.app.state.settings
    with database.reading() as session:
        viewer, secret = who(session, request, settings)
    if request.method not in _SAFE:
        check_csrf(secret, request.headers.get("x-csrf-token", ""))
    return handler(Exchange(request, database, settings, viewer, secret, body))


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
