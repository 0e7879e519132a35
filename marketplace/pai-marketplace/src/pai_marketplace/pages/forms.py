"""Forms that browsers send: only those that come from a page of ours are taken."""

from secrets import token_urlsafe
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from pai_marketplace import people
from pai_marketplace.errors import Forbidden, Refused

VISITOR: Final = "pai_marketplace_visitor"
"""The cookie of a browser in which nobody is signed in: its forms are bound to it, as to a session."""
_MOST_FIELDS: Final = 300
_ELSEWHERE: Final = (
    "this form is from no page of this server, or from before you signed in; load its page again"
)


def bound_to(request: Request, session: str) -> str:
    """Return the secret that the forms of a page are bound to: that of a session, or a visitor's."""
    if session:
        return session
    if not hasattr(request.state, "visitor"):
        request.state.visitor = request.cookies.get(VISITOR) or token_urlsafe(24)
    return str(request.state.visitor)


def fields_of(body: bytes) -> dict[str, str]:
    """Return the fields of a form, the last one of each name. Raises `Refused`."""
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise Refused("this form cannot be read") from None
    return {name: text.replace("\r\n", "\n").replace("\0", "") for name, text in fields}


def check_origin(request: Request, session: str, form: dict[str, str]) -> None:
    """Raise `Forbidden` unless a page of ours has sent a form, to the browser that it was made for."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden(_ELSEWHERE)
    if not people.is_csrf_token(bound_to(request, session), form.get("csrf", "")):
        raise Forbidden(_ELSEWHERE)
