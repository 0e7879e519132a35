"""What all pages share: templates, addresses, cookies."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pai_marketplace import people, rights
from pai_marketplace.models import Item, Version
from pai_marketplace.pages.forms import VISITOR, bound_to
from pai_marketplace.settings import Settings
from pai_marketplace.viewer import Viewer
from pai_task.record import record

HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "no-store"}
_STATIC: Final = files("pai_marketplace.pages").joinpath("static")
_TEMPLATES: Final = Environment(
    loader=PackageLoader("pai_marketplace.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
)


@record(frozen=True)
class Visit:
    """A request for a page: who asks, in which session of the database.

    `secret` is that of the browser's session, empty for nobody. `form` is empty unless one was sent.
    """

    request: Request
    session: Session
    settings: Settings
    viewer: Viewer
    secret: str
    form: Mapping[str, str]

    def page(self, template: str, /, status: int = 200, **context: Any) -> Response:
        """Return a page, which nothing but this browser may keep."""
        shared = {
            "site_name": "Marketplace",
            "viewer": self.viewer,
            "reviews": rights.reviews(self.viewer),
            "csrf_token": people.csrf_token(bound_to(self.request, self.secret)),
            "url": self.url,
            "item_url": self.item_url,
            "list_url": lambda **query: self.url("/", **query),
            "static": lambda file: self.url(f"/static/{file}", v=_digest(file)),
            "reference": reference,
            "day": day,
            "sentence": lambda text: f"{text[:1].upper()}{text[1:]}.",
            "here": "",
        }
        html = _TEMPLATES.get_template(template).render({**shared, **context})
        response = HTMLResponse(html, status, HEADERS)
        if not self.secret and VISITOR not in self.request.cookies:
            self.set_cookie(response, VISITOR, bound_to(self.request, ""))
        return response

    def see_other(self, url: str) -> Response:
        """Return the answer to a form that has done what it was for: the page that shows it."""
        return RedirectResponse(url, 303, HEADERS)

    def url(self, path: str, **query: str) -> str:
        """Return the address of something on this server, which may be below a path of another."""
        address = str(self.request.scope.get("root_path", "")) + path
        return f"{address}?{urlencode(query)}" if query else address

    def item_url(self, item: Item, below: str = "", **query: str) -> str:
        """Return the address of an item's page, or of one below it."""
        path = f"/items/{quote(item.full_name)}" + (f"/{below}" if below else "")
        return self.url(path, **query)

    def set_cookie(self, response: Response, name: str, value: str) -> None:
        """Set a cookie that no script reads, and that the browser sends from pages of ours only."""
        response.set_cookie(
            name, value, path="/", secure=self.settings.secure_cookies, httponly=True, samesite="strict"
        )


def reference(item: Item, version: Version | None = None) -> str:
    """Return the reference that means an item in jobs, or one version of it."""
    return f"marketplace://name/{item.full_name}" + (f"@{version.version}" if version else "")


def day(time: str) -> str:
    """Return the day of a time in ISO 8601, in words that mean the same everywhere."""
    return f"{datetime.fromisoformat(time[:19]):%-d %b %Y}"


@cache
def _digest(file: str) -> str:
    """Return a part of a static file's digest: browsers may keep it as long as its address is the same."""
    return sha256(_STATIC.joinpath(file).read_bytes()).hexdigest()[:12]
