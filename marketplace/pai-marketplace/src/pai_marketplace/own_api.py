"""The versioned API, below ``/v1``: what a static export has, and what changes items.

A path that ends in ``.json`` or ``.yaml`` is a file of the export too, with the same content.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from sqlalchemy.orm import Session
from starlette.responses import Response

from pai_marketplace import items, publishing
from pai_marketplace.errors import NotFound
from pai_marketplace.exchange import ApiRoute, Exchange, with_etag
from pai_marketplace.models import Item, Version
from pai_marketplace.publishing import About, Publication
from pai_marketplace.viewer import Viewer

PER_INDEX: Final = 1000
"""Items in one file of the index."""
_YAML: Final = "application/yaml; charset=utf-8"
_MOST: Final = 1_000_000


class Brief(TypedDict):
    """An item, as lists have it; `latest` is its newest approved version, empty if none is."""

    owner: str
    name: str
    type: str
    title: str
    summary: str
    tags: list[str]
    latest: str
    official: bool
    deprecated: bool
    replacedBy: str
    uses: int
    stars: int


class VersionDocument(TypedDict):
    """A version, which never changes; `file` is relative to the document of its item."""

    version: str
    kind: str
    digest: str
    author: str
    time: str
    note: str
    status: str
    file: str


class ItemDocument(Brief):
    """An item with all versions that the reader may read, newest first."""

    apiVersion: Literal[1]
    id: str
    author: str
    description: str
    categories: list[str]
    visibility: str
    groups: list[str]
    status: str
    createdAt: str
    updatedAt: str
    versions: list[VersionDocument]


class _Index(TypedDict):
    apiVersion: Literal[1]
    total: int
    items: list[Brief]


class Index(_Index, total=False):
    """A file of the index; `next` is the following one, if there is one."""

    next: str


class FoundDocument(TypedDict):
    """What a search finds: a page of items, and how many there are in all."""

    total: int
    items: list[Brief]


class PublishedDocument(VersionDocument):
    """A version that was published, with the warnings about it."""

    owner: str
    name: str
    problems: list[Any]


class Stars(TypedDict):
    """How many users have starred an item."""

    stars: int


class AuditEntry(TypedDict):
    """Who did what, to what, when; `detail` is JSON."""

    id: int
    at: str
    actor: str
    action: str
    item: str
    detail: str


class AboutBody(TypedDict, total=False):
    """What is said of an item."""

    title: str | None
    summary: str | None
    description: str | None
    visibility: str | None
    groups: list[str] | None
    tags: list[str] | None
    categories: list[str] | None


class PublishBody(AboutBody, total=False):
    """A version to publish: the text of a definition or a job as `content`, and what is said of the item."""

    owner: str | None
    content: str | None
    name: str | None
    version: str | None
    note: str | None


class DeprecationBody(TypedDict, total=False):
    """What replaces an item, as OWNER/NAME."""

    replacedBy: str | None


class ReviewBody(TypedDict, total=False):
    """What a reviewer decides, ``approved`` or ``rejected``, and what the author is told."""

    status: str | None
    note: str | None


def routes() -> list[ApiRoute]:
    """Return the routes."""
    item = "/v1/items/{owner}/{name}"
    words = dict.fromkeys(("q", "type", "owner", "author", "tags", "order"), str)
    return [
        ApiRoute("/v1/index.json", _index),
        ApiRoute("/v1/index-{page:int}.json", _index),
        ApiRoute("/v1/search", _search, query={**words, "offset": int, "limit": int}),
        ApiRoute("/v1/sha256/{digest}.yaml", _by_digest, media="application/yaml"),
        ApiRoute("/v1/items", _publish, "POST", body=PublishBody, statuses=(201, 200)),
        ApiRoute(f"{item}.json", _item),
        ApiRoute(f"{item}.json", _edit, "PATCH", body=AboutBody),
        ApiRoute(f"{item}.json", _withdraw, "DELETE", statuses=(204,)),
        ApiRoute(f"{item}/star", _star, "PUT"),
        ApiRoute(f"{item}/star", _unstar, "DELETE"),
        ApiRoute(f"{item}/use", _use, "POST", statuses=(204,)),
        ApiRoute(f"{item}/deprecation", _deprecate, "PUT", body=DeprecationBody, statuses=(204,)),
        ApiRoute(f"{item}/deprecation", _undeprecate, "DELETE", statuses=(204,)),
        ApiRoute(f"{item}/official", _official, "PUT", statuses=(204,)),
        ApiRoute(f"{item}/official", _unofficial, "DELETE", statuses=(204,)),
        ApiRoute(f"{item}/versions/{{version}}/review", _review, "PUT", body=ReviewBody),
        ApiRoute(f"{item}/{{version}}.yaml", _content, media="application/yaml"),
        ApiRoute("/v1/audit", _audit, query={"item": str, "limit": int}),
    ]


def index_document(session: Session, viewer: Viewer, page: int) -> Index:
    """Return a file of the index; its pages count from 1. Raises `NotFound` for one beyond the end."""
    wanted = items.Search(order="name", offset=(page - 1) * PER_INDEX, limit=PER_INDEX)
    found = items.search(session, viewer, wanted) if page else None
    if not found or (page > 1 and not found.items):
        raise NotFound(f"the index has no page {page}")
    document: Index = {
        "apiVersion": 1,
        "total": found.total,
        "items": [_brief(each) for each in found.items],
    }
    if page * PER_INDEX < found.total:
        document["next"] = f"index-{page + 1}.json"
    return document


def item_document(session: Session, viewer: Viewer, item: Item) -> ItemDocument:
    """Return an item with all versions that the viewer may read, newest first."""
    return {
        "apiVersion": 1,
        **_brief(item),
        "id": item.id,
        "author": item.author,
        "description": item.description,
        "categories": item.categories,
        "visibility": item.visibility,
        "groups": item.group_names,
        "status": item.status,
        "createdAt": item.created_at,
        "updatedAt": item.updated_at,
        "versions": [version_document(item, each) for each in items.versions(session, viewer, item)],
    }


def version_document(item: Item, version: Version) -> VersionDocument:
    """Return a version; `file` is relative to the document of the item."""
    return {
        "version": version.version,
        "kind": version.kind,
        "digest": f"sha256:{version.digest}",
        "author": version.author,
        "time": version.created_at,
        "note": version.note,
        "status": version.status,
        "file": f"{item.name}/{version.version}.yaml",
    }


def _brief(item: Item) -> Brief:
    return {
        "owner": item.owner,
        "name": item.name,
        "type": item.type,
        "title": item.title,
        "summary": item.summary,
        "tags": item.tags,
        "latest": item.latest,
        "official": item.is_official,
        "deprecated": item.is_deprecated,
        "replacedBy": item.replaced_by,
        "uses": item.uses,
        "stars": item.stars,
    }


def _index(given: Exchange) -> Index:
    """List all items, a page of them; `next` names the following one."""
    page = int(given.request.path_params.get("page", 1))
    with given.database.reading() as session:
        return index_document(session, given.viewer, page)


def _item(given: Exchange) -> ItemDocument:
    """Return an item, with its versions."""
    with given.database.reading() as session:
        return item_document(session, given.viewer, _found(session, given))


def _content(given: Exchange) -> Response:
    """Return the bytes of a version; its ETag is its digest."""
    with given.database.reading() as session:
        version = items.version(session, given.viewer, _found(session, given), given.path("version"))
        content = items.content(session, version)
    return with_etag(given.request, content.encode(), _YAML, digest=version.digest)


def _by_digest(given: Exchange) -> Response:
    """Return the bytes with a SHA-256."""
    with given.database.reading() as session:
        content = items.by_digest(session, given.viewer, given.path("digest"))
    return with_etag(given.request, content.text.encode(), _YAML, digest=content.digest)


def _search(given: Exchange) -> FoundDocument:
    """Search; `order` is uses, stars, updated or name, and tags have commas between them."""
    wanted = items.Search(
        words=given.query("q"),
        type=given.query("type"),
        owner=given.query("owner"),
        author=given.query("author"),
        tags=tuple(filter(None, given.query("tags").split(","))),
        order=given.query("order", items.ORDERS[0]),
        offset=given.number("offset", 0, _MOST),
        limit=given.number("limit", 50, 200),
    )
    with given.database.reading() as session:
        found = items.search(session, given.viewer, wanted)
        return {"total": found.total, "items": [_brief(each) for each in found.items]}


def _publish(given: Exchange) -> tuple[PublishedDocument, int]:
    """Publish a version; 200 if the same was published before."""
    sent = given.sent()
    publication = Publication(
        owner=sent["owner"] or given.viewer.name,
        content=sent["content"] or "",
        name=sent["name"] or "",
        version=sent["version"] or "",
        note=sent["note"] or "",
        about=_about(sent),
    )
    with given.database.writing() as session:
        published = publishing.publish(session, given.viewer, given.settings, publication)
        document: PublishedDocument = {
            "owner": published.item.owner,
            "name": published.item.name,
            **version_document(published.item, published.version),
            "problems": [each.to_json() for each in published.checked.problems],
        }
    return document, 201 if published.is_new else 200


def _edit(given: Exchange) -> ItemDocument:
    """Change what is said of an item."""
    with given.database.writing() as session:
        item = _found(session, given)
        publishing.edit(session, given.viewer, item, _about(given.sent()))
        return item_document(session, given.viewer, item)


def _withdraw(given: Exchange) -> None:
    """Withdraw an item: it is gone for everybody, and its name is not given again."""
    with given.database.writing() as session:
        publishing.withdraw(session, given.viewer, _found(session, given))


def _star(given: Exchange) -> Stars:
    """Star an item."""
    return _starred(given, on=True)


def _unstar(given: Exchange) -> Stars:
    """Take a star back."""
    return _starred(given, on=False)


def _starred(given: Exchange, *, on: bool) -> Stars:
    with given.database.writing() as session:
        item = _found(session, given)
        publishing.star(session, given.viewer, item, on=on)
        return {"stars": item.stars}


def _use(given: Exchange) -> None:
    """Count a use of an item."""
    with given.database.writing() as session:
        publishing.use(session, _found(session, given))


def _deprecate(given: Exchange) -> None:
    """Advise against an item; the body may be empty."""
    with given.database.writing() as session:
        replaced_by = given.sent()["replacedBy"] if given.body else None
        publishing.deprecate(session, given.viewer, _found(session, given), replaced_by=replaced_by or "")


def _undeprecate(given: Exchange) -> None:
    """Take a deprecation back."""
    with given.database.writing() as session:
        publishing.undeprecate(session, given.viewer, _found(session, given))


def _official(given: Exchange) -> None:
    """Make an item official: only admins change it."""
    with given.database.writing() as session:
        publishing.make_official(session, given.viewer, _found(session, given), official=True)


def _unofficial(given: Exchange) -> None:
    """Make an item official no more."""
    with given.database.writing() as session:
        publishing.make_official(session, given.viewer, _found(session, given), official=False)


def _review(given: Exchange) -> VersionDocument:
    """Approve or reject a version."""
    sent = given.sent()
    with given.database.writing() as session:
        item = _found(session, given)
        version = items.version(session, given.viewer, item, given.path("version"))
        publishing.review(session, given.viewer, item, version, sent["status"] or "", sent["note"] or "")
        return version_document(item, version)


def _audit(given: Exchange) -> list[AuditEntry]:
    """Return the audit trail, newest first, for admins."""
    with given.database.reading() as session:
        entries = items.audit(session, given.viewer, given.query("item"), given.number("limit", 200, 1000))
    return [
        {
            "id": each.id,
            "at": each.at,
            "actor": each.actor,
            "action": each.action,
            "item": each.item,
            "detail": each.detail,
        }
        for each in entries
    ]


def _about(sent: Mapping[str, Any]) -> About:
    return About(**{field: sent[field] for field in AboutBody.__annotations__})


def _found(session: Session, given: Exchange) -> Item:
    return items.get(session, given.viewer, given.path("owner"), given.path("name"))
