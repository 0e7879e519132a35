"""Signing in by a token, and out."""

from typing import Final

from starlette.responses import Response

from pai_marketplace import people
from pai_marketplace.errors import NotSignedIn
from pai_marketplace.exchange import COOKIE
from pai_marketplace.pages.site import Visit

OPENID: Final = "/sign-in/openid"
"""Where signing in at a provider begins."""


def sign_in_page(visit: Visit) -> Response:
    """Show the form for a token, or take one and go where the person wanted to."""
    next_ = visit.form.get("next") or visit.request.query_params.get("next", "")
    fault, status = "", 200
    if visit.form:
        try:
            signed_in = people.sign_in(visit.session, visit.form.get("token", "").strip())
        except NotSignedIn as error:
            fault, status = str(error), error.status
        else:
            response = visit.see_other(next_ if is_ours(next_) else visit.url("/"))
            visit.set_cookie(response, COOKIE, signed_in.secret)
            return response
    openid = visit.url(OPENID, next=next_) if visit.settings.openid else ""
    return visit.page("sign_in.html", status, here="sign-in", fault=fault, openid=openid, next=next_)


def sign_out(visit: Visit) -> Response:
    """End the session, on the server too."""
    people.sign_out(visit.session, visit.secret)
    response = visit.see_other(visit.url("/"))
    response.delete_cookie(
        COOKIE, path="/", secure=visit.settings.secure_cookies, httponly=True, samesite="strict"
    )
    return response


def is_ours(address: str) -> bool:
    r"""Return whether an address is one of this server's: browsers take ``//`` and ``/\`` for another's."""
    return address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
