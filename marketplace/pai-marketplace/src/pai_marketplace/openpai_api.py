"""OpenPAI's REST, as its marketplace clients call it: items by id, below ``/api``.

An item there has no versions: its ``protocol`` is the newest one, and a change of it is a new version. Its
name may have spaces; it is the title of an item here, whose own name is made of it. What a client may not
decide, ``status`` and the counts, it may send; it has no effect.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict

from sqlalchemy import select
from sqlalchemy.orm import Session

from pai_marketplace import items, publishing, rights
from pai_marketplace.errors import Forbidden, Invalid, NotFound
from pai_marketplace.exchange import ApiRoute, Exchange
from pai_marketplace.models import Item, Version
from pai_marketplace.publishing import About, Publication
from pai_marketplace.viewer import Viewer
from pai_task.record import replace

_MOST: Final = 10_000
_MOST_NAMESAKES: Final = 1000
_LABELS: Final = (("tag", "tags"), ("category", "categories"))


class OpenPaiItem(TypedDict):
    """An item as OpenPAI's server describes one."""

    id: str
    name: str
    author: str
    type: str
    source: str
    isPublic: bool
    isPrivate: bool
    groupList: list[str]
    dataType: None
    dataUrl: None
    categories: list[str]
    tags: list[str]
    summary: str
    description: str
    protocol: str
    useNumber: int
    starNumber: int
    status: str
    createdAt: str
    updatedAt: str


class OpenPaiBody(TypedDict, total=False):
    """An item as OpenPAI's clients send one; all else that they send has no effect."""

    name: str | None
    author: str | None
    type: str | None
    isPublic: bool | None
    isPrivate: bool | None
    groupList: list[str] | None
    categories: list[str] | None
    tags: list[str] | None
    summary: str | None
    description: str | None
    protocol: str | None


class Created(TypedDict):
    """The id of an item that was made."""

    id: str


class LabelDocument(TypedDict):
    """A tag or a category, and how many items have it."""

    id: str
    name: str
    items: int


def routes() -> list[ApiRoute]:
    """Return the routes."""
    filters = ("keyword", "name", "author", "type", "source", "tag", "category", "status")
    found = [
        ApiRoute("/api/items", _list, query=dict.fromkeys(filters, str)),
        ApiRoute("/api/items", _create, "POST", body=OpenPaiBody, statuses=(201,)),
        ApiRoute("/api/items/{id}", _get),
        ApiRoute("/api/items/{id}", _update, "PUT", body=OpenPaiBody),
        ApiRoute("/api/items/{id}", _delete, "DELETE"),
    ]
    for one, many in _LABELS:
        found += [
            ApiRoute(f"/api/items/{{id}}/{one}", _labels_of),
            ApiRoute(f"/api/items/{{id}}/{one}/{{label}}", _add_label, "POST", statuses=(201,)),
            ApiRoute(f"/api/items/{{id}}/{one}/{{label}}", _remove_label, "DELETE"),
            ApiRoute(f"/api/{many}", _labels),
            ApiRoute(f"/api/{many}/{{label}}", _label),
        ]
    return found


def item_document(session: Session, viewer: Viewer, item: Item) -> OpenPaiItem:
    """Return an item as OpenPAI's server describes one."""
    version = items.version(session, viewer, item)
    return _document(item, version, items.content(session, version))


def _document(item: Item, version: Version, protocol: str) -> OpenPaiItem:
    return {
        "id": item.id,
        "name": item.title if _is_its_name(item) else item.name,
        "author": item.author,
        "type": item.type,
        "source": "marketplace",
        "isPublic": item.visibility == "public",
        "isPrivate": item.visibility == "private",
        "groupList": item.group_names,
        "dataType": None,
        "dataUrl": None,
        "categories": item.categories,
        "tags": item.tags,
        "summary": item.summary,
        "description": item.description,
        "protocol": protocol,
        "useNumber": item.uses,
        "starNumber": item.stars,
        "status": version.status,
        "createdAt": item.created_at,
        "updatedAt": item.updated_at,
    }


def _list(given: Exchange) -> list[OpenPaiItem]:
    """List the items that have some words and properties; `tag` and `category` have commas in them."""
    if given.query("source") not in ("", "marketplace"):
        return []
    wanted = items.Search(
        words=given.query("keyword"),
        name=given.query("name"),
        author=given.query("author"),
        type=given.query("type"),
        tags=_split(given.query("tag")),
        categories=_split(given.query("category")),
        status=given.query("status"),
        order="updated",
        limit=_MOST,
    )
    with given.database.reading() as session:
        found = items.search(session, given.viewer, wanted).items
        newest = items.newest(session, given.viewer, found)
        return [_document(each, *newest[each.id]) for each in found if each.id in newest]


def _get(given: Exchange) -> OpenPaiItem:
    """Return an item."""
    with given.database.reading() as session:
        return item_document(session, given.viewer, _found(session, given))


def _create(given: Exchange) -> Created:
    """Publish an item."""
    sent = given.sent()
    author, title, protocol = (sent[field] or "" for field in ("author", "name", "protocol"))
    if not author or not protocol:
        raise Invalid("expected an author, and a protocol")
    rights.check(given.viewer, rights.may_publish(given.viewer, author), f"publish items of {author}")
    with given.database.writing() as session:
        wanted = Publication(
            owner=author,
            content=protocol,
            name=_free_name(session, author, publishing.slug(title)),
            type=sent["type"] or "",
            about=replace(_about(sent), title=title or None),
        )
        published = publishing.publish(session, given.viewer, given.settings, wanted)
        return {"id": published.item.id}


def _update(given: Exchange) -> None:
    """Change an item; another protocol is its next version."""
    sent = given.sent()
    with given.database.writing() as session:
        item = _found(session, given)
        if sent["author"] not in (None, "", item.author):
            raise Forbidden("an item stays its author's")
        publishing.edit(session, given.viewer, item, _about(sent))
        if protocol := sent["protocol"]:
            wanted = Publication(item.owner, protocol, item.name, type=item.type)
            publishing.publish(session, given.viewer, given.settings, wanted)


def _delete(given: Exchange) -> None:
    """Withdraw an item."""
    with given.database.writing() as session:
        publishing.withdraw(session, given.viewer, _found(session, given))


def _labels_of(given: Exchange) -> list[str]:
    """List the tags or categories of an item."""
    kind = given.request.url.path.rpartition("/")[2]
    with given.database.reading() as session:
        item = _found(session, given)
        return item.tags if kind == "tag" else item.categories


def _add_label(given: Exchange) -> None:
    """Give an item a tag or category."""
    _change_label(given, lambda labels, label: [*labels, label])


def _remove_label(given: Exchange) -> None:
    """Take a tag or category away from an item."""

    def removed(labels: Sequence[str], label: str) -> list[str]:
        if label not in labels:
            raise NotFound(f"the item has no {label}")
        return [each for each in labels if each != label]

    _change_label(given, removed)


def _change_label(given: Exchange, changed: Callable[[Sequence[str], str], list[str]]) -> None:
    kind, label = given.request.url.path.split("/")[-2], given.path("label")
    with given.database.writing() as session:
        item = _found(session, given)
        wanted = changed(item.tags if kind == "tag" else item.categories, label)
        about = About(tags=wanted) if kind == "tag" else About(categories=wanted)
        publishing.edit(session, given.viewer, item, about)


def _labels(given: Exchange) -> list[LabelDocument]:
    """List all tags or categories."""
    many = given.request.url.path.rpartition("/")[2]
    kind = next(one for one, each in _LABELS if each == many)
    with given.database.reading() as session:
        found = items.labels(session, given.viewer, kind)
    return [{"id": text, "name": text, "items": count} for text, count in found]


def _label(given: Exchange) -> LabelDocument:
    """Return a tag or category."""
    many, label = given.request.url.path.split("/")[-2], given.path("label")
    kind = next(one for one, each in _LABELS if each == many)
    with given.database.reading() as session:
        counts = dict(items.labels(session, given.viewer, kind))
    if label not in counts:
        raise NotFound(f"there is no {kind} {label}")
    return {"id": label, "name": label, "items": counts[label]}


def _found(session: Session, given: Exchange) -> Item:
    """Return the item of the id in the path. Raises `NotFound`, also for one that only others may see."""
    item = items.by_id(session, given.viewer, given.path("id"))
    if item is not None:
        return item
    raise NotFound(f"there is no item {given.path('id')}, or you may not see it")


def _about(sent: Mapping[str, Any]) -> About:
    visibility = "public" if sent["isPublic"] else "private" if sent["isPrivate"] else "groups"
    is_said = sent["isPublic"] is not None or sent["isPrivate"] is not None
    return About(
        summary=sent["summary"],
        description=sent["description"],
        visibility=visibility if is_said else None,
        groups=sent["groupList"],
        tags=sent["tags"],
        categories=sent["categories"],
    )


def _free_name(session: Session, owner: str, name: str) -> str:
    """Return a name that no item of the owner has: there, several items may have one."""
    taken = set(session.scalars(select(Item.name).where(Item.owner == owner, Item.name.startswith(name))))
    numbered = (f"{name}-{number}" for number in range(2, _MOST_NAMESAKES))
    return next(each for each in (name, *numbered) if each not in taken) if name else ""


def _is_its_name(item: Item) -> bool:
    """Whether an item got its name from its title, here."""
    name = publishing.slug(item.title)
    return name != "" and re.fullmatch(f"{re.escape(name)}(-[0-9]+)?", item.name) is not None


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))
