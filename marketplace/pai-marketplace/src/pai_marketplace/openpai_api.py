"""OpenPAI's REST, as its marketplace clients call it: items by id, below ``/api``.

An item there has no versions: its ``protocol`` is the newest one, and a change of it is a new version. Its
name may have spaces; it is the title of an item here, whose own name is made of it. What a client may not
decide, ``status`` and the counts, it may send; it has no effect.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pai_marketplace import items, publishing, rights
from pai_marketplace.errors import Forbidden, Invalid, NotFound
from pai_marketplace.exchange import Exchange, endpoint
from pai_marketplace.models import Item, Version
from pai_marketplace.own_api import about_item, string
from pai_marketplace.publishing import About, Publication
from pai_marketplace.viewer import Viewer
from pai_runtime.task.record import replace

_MOST: Final = 10_000
_MOST_NAMESAKES: Final = 1000
_LABELS: Final = (("tag", "tags"), ("category", "categories"))


def routes() -> list[Route]:
    """Return the routes."""
    found = [
        Route("/api/items", endpoint(_list)),
        Route("/api/items", endpoint(_create), methods=["POST"]),
        Route("/api/items/{id}", endpoint(_get)),
        Route("/api/items/{id}", endpoint(_update), methods=["PUT"]),
        Route("/api/items/{id}", endpoint(_delete), methods=["DELETE"]),
    ]
    for one, many in _LABELS:
        found += [
            Route(f"/api/items/{{id}}/{one}", endpoint(_labels_of), methods=["GET"]),
            Route(f"/api/items/{{id}}/{one}/{{label}}", endpoint(_change_label), methods=["POST", "DELETE"]),
            Route(f"/api/{many}", endpoint(_labels)),
            Route(f"/api/{many}/{{label}}", endpoint(_label)),
        ]
    return found


def item_document(session: Session, viewer: Viewer, item: Item) -> dict[str, Any]:
    """Return an item as OpenPAI's server describes one."""
    version = items.version(session, viewer, item)
    return _document(item, version, items.content(session, version))


def _document(item: Item, version: Version, protocol: str) -> dict[str, Any]:
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


def _list(given: Exchange) -> Response:
    if given.query("source") not in ("", "marketplace"):
        return JSONResponse([])
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
        return JSONResponse([_document(each, *newest[each.id]) for each in found if each.id in newest])


def _get(given: Exchange) -> Response:
    with given.database.reading() as session:
        return JSONResponse(item_document(session, given.viewer, _found(session, given)))


def _create(given: Exchange) -> Response:
    sent = given.json()
    author, title, protocol = (string(sent, field) for field in ("author", "name", "protocol"))
    if not author or not protocol:
        raise Invalid("expected an author, and a protocol")
    rights.check(given.viewer, rights.may_publish(given.viewer, author), f"publish items of {author}")
    with given.database.writing() as session:
        wanted = Publication(
            owner=author,
            content=protocol,
            name=_free_name(session, author, publishing.slug(title)),
            type=string(sent, "type"),
            about=replace(_about(sent), title=title or None),
        )
        published = publishing.publish(session, given.viewer, given.settings, wanted)
        id_ = published.item.id
    return JSONResponse({"id": id_}, 201)


def _update(given: Exchange) -> Response:
    sent = given.json()
    with given.database.writing() as session:
        item = _found(session, given)
        if string(sent, "author") not in ("", item.author):
            raise Forbidden("an item stays its author's")
        publishing.edit(session, given.viewer, item, _about(sent))
        if protocol := string(sent, "protocol"):
            wanted = Publication(item.owner, protocol, item.name, type=item.type)
            publishing.publish(session, given.viewer, given.settings, wanted)
    return Response(status_code=200)


def _delete(given: Exchange) -> Response:
    with given.database.writing() as session:
        publishing.withdraw(session, given.viewer, _found(session, given))
    return Response(status_code=200)


def _labels_of(given: Exchange) -> Response:
    kind = given.request.url.path.rpartition("/")[2]
    with given.database.reading() as session:
        item = _found(session, given)
        return JSONResponse(item.tags if kind == "tag" else item.categories)


def _change_label(given: Exchange) -> Response:
    kind, label = given.request.url.path.split("/")[-2], given.path("label")
    with given.database.writing() as session:
        item = _found(session, given)
        present = item.tags if kind == "tag" else item.categories
        wanted = [each for each in present if each != label]
        if given.request.method == "POST":
            wanted.append(label)
        elif label not in present:
            raise NotFound(f"the item has no {kind} {label}")
        about = About(tags=wanted) if kind == "tag" else About(categories=wanted)
        publishing.edit(session, given.viewer, item, about)
    return Response(status_code=201 if given.request.method == "POST" else 200)


def _labels(given: Exchange) -> Response:
    many = given.request.url.path.rpartition("/")[2]
    kind = next(one for one, each in _LABELS if each == many)
    with given.database.reading() as session:
        found = items.labels(session, given.viewer, kind)
    return JSONResponse([{"id": text, "name": text, "items": count} for text, count in found])


def _label(given: Exchange) -> Response:
    many, label = given.request.url.path.split("/")[-2], given.path("label")
    kind = next(one for one, each in _LABELS if each == many)
    with given.database.reading() as session:
        counts = dict(items.labels(session, given.viewer, kind))
    if label not in counts:
        raise NotFound(f"there is no {kind} {label}")
    return JSONResponse({"id": label, "name": label, "items": counts[label]})


def _found(session: Session, given: Exchange) -> Item:
    """Return the item of the id in the path. Raises `NotFound`, also for one that only others may see."""
    item = items.by_id(session, given.viewer, given.path("id"))
    if item is not None:
        return item
    raise NotFound(f"there is no item {given.path('id')}, or you may not see it")


def _about(sent: Mapping[str, Any]) -> About:
    about = about_item({**sent, "title": None, "visibility": None, "groups": sent.get("groupList")})
    if not sent.keys() & {"isPublic", "isPrivate"}:
        return about
    visibility = "public" if sent.get("isPublic") else "private" if sent.get("isPrivate") else "groups"
    return replace(about, visibility=visibility)


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
