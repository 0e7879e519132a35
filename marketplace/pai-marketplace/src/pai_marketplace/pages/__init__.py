"""The pages of the marketplace: HTML that works without scripts, and a few static files.

`routes` has all of them, for the application of the server. What a person may do is decided by `rights` and
the service layer, never here or in a template: pages ask them which buttons to show, and again when one is
pressed.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from pai_marketplace.errors import NotSignedIn, Refused
from pai_marketplace.exchange import read_body, who
from pai_marketplace.pages import browsing, openid, publishing, signing_in, using
from pai_marketplace.pages.forms import check_origin, fields_of
from pai_marketplace.pages.site import Visit
from pai_marketplace.settings import CALLBACK
from pai_marketplace.viewer import ANYBODY

Page = Callable[[Visit], Response]

_ITEM: Final = "/items/{owner}/{name}"
_SHOWN: Final[Mapping[str, Page]] = {
    "/": browsing.list_page,
    "/publish": publishing.publish_page,
    "/sign-in": signing_in.sign_in_page,
    "/review": publishing.review_page,
    _ITEM: browsing.item_page,
    f"{_ITEM}/differences": browsing.differences_page,
    f"{_ITEM}/use": using.use_page,
    f"{_ITEM}/edit": publishing.edit_page,
}
_TAKES_FORMS: Final[Mapping[str, Page]] = {
    "/publish": publishing.publish_page,
    "/sign-in": signing_in.sign_in_page,
    "/sign-out": signing_in.sign_out,
    f"{_ITEM}/use": using.use_page,
    f"{_ITEM}/edit": publishing.edit_page,
    f"{_ITEM}/star": publishing.star,
    f"{_ITEM}/review": publishing.review,
}
_TITLES: Final = {
    401: "Sign in first",
    403: "You have no right to this",
    404: "Nothing is here",
    413: "That is too much",
    502: "Another server is needed for this",
}


def routes() -> list[BaseRoute]:
    """Return the routes of the pages; the last ones of the application."""
    return [
        *(Route(path, _answering(page), methods=["GET"]) for path, page in _SHOWN.items()),
        *(Route(path, _answering(page), methods=["POST"]) for path, page in _TAKES_FORMS.items()),
        Route(signing_in.OPENID, _asking(openid.start), methods=["GET"]),
        Route(CALLBACK, _asking(openid.end), methods=["GET"]),
        Mount("/static", StaticFiles(packages=[("pai_marketplace.pages", "static")])),
        Route("/{path:path}", _answering(_nothing), methods=["GET"]),
    ]


def _answering(page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for a page, which works in a thread, and answers with a page whatever is refused."""

    async def endpoint(request: Request) -> Response:
        try:
            form = fields_of(await read_body(request)) if request.method == "POST" else {}
            return await run_in_threadpool(_answer, request, page, form)
        except Refused as error:
            return await run_in_threadpool(_refused, request, error)

    return endpoint


def _asking(page: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for a page that asks another server, before it opens a session of the database."""

    async def endpoint(request: Request) -> Response:
        try:
            response = await run_in_threadpool(page, request)
        except Refused as error:
            response = await run_in_threadpool(_refused, request, error)
        if page is openid.end:
            openid.forget(response)
        return response

    return endpoint


def _answer(request: Request, page: Page, form: dict[str, str]) -> Response:
    database, settings = request.app.state.database, request.app.state.settings
    only_reads = not form or form.get("do") in ("check", "fill")
    with database.reading() if only_reads else database.writing() as session:
        try:
            viewer, secret = who(session, request, settings)
        except NotSignedIn:
            if page is not signing_in.sign_in_page:
                raise
            viewer, secret = ANYBODY, ""
        if request.method == "POST":
            check_origin(request, secret, form)
        return page(Visit(request, session, settings, viewer, secret, form))


def _refused(request: Request, error: Refused) -> Response:
    """Return the page that says why, for whoever may not even be known."""
    database, settings = request.app.state.database, request.app.state.settings
    with database.reading() as session:
        try:
            viewer, secret = who(session, request, settings)
        except NotSignedIn:
            viewer, secret = ANYBODY, ""
        title = _TITLES.get(error.status) or HTTPStatus(error.status).phrase
        visit = Visit(request, session, settings, viewer, secret, {})
        return visit.page("error.html", error.status, title=title, message=str(error), code=error.status)


def _nothing(visit: Visit) -> Response:
    title, message = _TITLES[404], "there is no such page"
    return visit.page("error.html", 404, title=title, message=message, code=404)
