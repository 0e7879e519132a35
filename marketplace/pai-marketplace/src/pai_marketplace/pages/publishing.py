"""The pages on which items are published and changed, get stars, and are reviewed."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from pai_document.problems import Problem
from pai_marketplace import items, publishing, rights
from pai_marketplace.checking import check_content
from pai_marketplace.errors import Conflict, Invalid
from pai_marketplace.models import Item
from pai_marketplace.pages.browsing import asked
from pai_marketplace.pages.checked import Checked
from pai_marketplace.pages.site import Visit

_ABOUT: Final = ("title", "summary", "description", "tags", "visibility", "groups")
_FIELDS: Final = ("owner", "text", "note", *_ABOUT)


def publish_page(visit: Visit) -> Response:
    """Show the form of a new item, or publish what is in it."""
    rights.check(visit.viewer, rights.may_publish(visit.viewer, visit.viewer.name), "publish")
    empty = {**dict.fromkeys(_FIELDS, ""), "owner": visit.viewer.name, "visibility": "public"}
    return _page(visit, None, empty)


def edit_page(visit: Visit) -> Response:
    """Show the form of an item and its next version, or publish what is in it."""
    item, _ = asked(visit)
    rights.check(visit.viewer, rights.may_change(visit.viewer, item), f"change {item.full_name}")
    newest = items.versions(visit.session, visit.viewer, item)[0]
    written = {
        **{name: getattr(item, name) for name in ("owner", "title", "summary", "description", "visibility")},
        "tags": ", ".join(item.tags),
        "groups": ", ".join(item.group_names),
        "text": items.content(visit.session, newest),
        "note": "",
    }
    return _page(visit, item, written)


def _page(visit: Visit, item: Item | None, written: Mapping[str, str]) -> Response:
    draft = {**written, **{name: visit.form[name] for name in _FIELDS if name in visit.form}}
    if item:
        draft["owner"] = item.owner
    fault, result, status = "", None, 200
    try:
        if visit.form.get("do") == "publish":
            with visit.session.begin_nested():  # of a refused one, nothing stays
                published = _published(visit, item, draft)
            return visit.see_other(visit.item_url(published))
        if visit.form:
            result = Checked(draft["text"], _problems(visit, draft["text"]))
    except (Invalid, Conflict) as error:
        found = error.problems if isinstance(error, Invalid) else ()
        fault, result, status = str(error), Checked(draft["text"], found) if found else None, error.status
    owners = sorted({visit.viewer.name, *visit.viewer.groups})
    return visit.page(
        "publish.html",
        status,
        here="" if item else "publish",
        item=item,
        draft=draft,
        fault=fault,
        owners=owners,
        visibilities=publishing.VISIBILITIES,
        result=result,
    )


def _published(visit: Visit, item: Item | None, draft: Mapping[str, str]) -> Item:
    def text(name: str) -> str | None:
        """Return a text; None where that of the definition is to be taken, as for a new item."""
        return draft[name].strip() if draft[name].strip() or item else None

    def words(name: str) -> list[str]:
        return [each.strip() for each in draft[name].split(",") if each.strip()]

    about = publishing.About(
        title=text("title"),
        summary=text("summary"),
        description=text("description"),
        visibility=text("visibility"),
        groups=words("groups"),
        tags=words("tags") if item or words("tags") else None,
    )
    published = publishing.publish(
        visit.session,
        visit.viewer,
        visit.settings,
        publishing.Publication(
            owner=draft["owner"],
            content=draft["text"],
            name=item.name if item else "",
            type=item.type if item else "",
            note=draft["note"].strip(),
            about=about,
        ),
    )
    if not published.is_new:
        publishing.edit(visit.session, visit.viewer, published.item, about)
    return published.item


def _problems(visit: Visit, text: str) -> tuple[Problem, ...]:
    try:
        return check_content(visit.session, visit.viewer, text).problems
    except Invalid as error:
        return error.problems or (Problem("invalid", str(error)),)


def star(visit: Visit) -> Response:
    """Give an item a star, or take it back."""
    item, _ = asked(visit)
    publishing.star(visit.session, visit.viewer, item, on=visit.form.get("starred") == "yes")
    return visit.see_other(visit.item_url(item))


def review_page(visit: Visit) -> Response:
    """Show what waits for a reviewer."""
    rights.check(visit.viewer, rights.reviews(visit.viewer), "review")
    return visit.page("review.html", here="review", waiting=items.pending(visit.session, visit.viewer))


def review(visit: Visit) -> Response:
    """Approve or reject a version."""
    item, version = asked(visit)
    status, note = visit.form.get("status", ""), visit.form.get("note", "").strip()
    publishing.review(visit.session, visit.viewer, item, version, status, note)
    return visit.see_other(visit.url("/review"))
