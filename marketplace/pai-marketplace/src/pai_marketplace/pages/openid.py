"""Signing in at the organisation's provider: where it begins, and where the provider sends people back to."""

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pai_marketplace import openid, people
from pai_marketplace.errors import NotFound, NotSignedIn
from pai_marketplace.exchange import COOKIE
from pai_marketplace.openid import Begun, Provider
from pai_marketplace.pages.signing_in import is_ours
from pai_marketplace.pages.site import HEADERS, Visit
from pai_marketplace.settings import Settings

_BEGUN: Final = "pai_marketplace_sign_in"
_SECONDS: Final = 600
"""Seconds that a person has at the provider."""


def start(request: Request) -> Response:
    """Send a browser to the provider."""
    begun = openid.begin(request.query_params.get("next", ""))
    response = RedirectResponse(_provider(request).address(begun), 303, HEADERS)
    # Lax: the browser has to send it when it comes back from the provider's site.
    response.set_cookie(
        _BEGUN,
        json.dumps(vars(begun)).encode().hex(),
        max_age=_SECONDS,
        path="/",
        secure=_settings(request).secure_cookies,
        httponly=True,
        samesite="lax",
    )
    return response


def end(request: Request) -> Response:
    """Begin the session of who comes back from the provider.

    The answer is a page that leads on, and no redirect: to what follows another site's page, browsers do not
    send the session's strict cookie.
    """
    settings = _settings(request)
    identity = _provider(request).identity(begun := _begun(request), request.query_params)
    with request.app.state.database.writing() as session:
        admins = settings.openid.admins if settings.openid else ""
        signed_in = people.sign_in_as(session, identity, admins)
        visit = Visit(request, session, settings, signed_in.viewer, signed_in.secret, {})
        to = begun.next if is_ours(begun.next) else visit.url("/")
        response = visit.page("signed_in.html", to=to)
        visit.set_cookie(response, COOKIE, signed_in.secret)
    return response


def forget(response: Response) -> None:
    """Let nobody end a sign-in twice."""
    response.delete_cookie(_BEGUN, path="/", httponly=True, samesite="lax")


def _begun(request: Request) -> Begun:
    try:
        fields = json.loads(bytes.fromhex(request.cookies.get(_BEGUN, "")))
        return Begun(*(str(fields[name]) for name in ("state", "nonce", "verifier", "next")))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotSignedIn(
            "this sign-in was not begun in this browser, or has ended; begin it again"
        ) from None


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise NotFound("people sign in by tokens here")
    return provider


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings
