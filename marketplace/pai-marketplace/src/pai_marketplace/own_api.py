"""The versioned API, below ``/v1``: what a static export has, and what changes items.

A path that ends in ``.json`` or ``.yaml`` is a file of the export too, with the same content.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pai_marketplace import items, publishing
from pai_marketplace.errors import Invalid, NotFound
from pai_marketplace.exchange import Exchange, endpoint, json_bytes, problem_json, with_etag
from pai_marketplace.models import Item, Version
from pai_marketplace.publishing import About, Publication
from pai_marketplace.viewer import Viewer

PER_INDEX: Final = 1000
"""Items in one file of the index."""
_YAML: Final = "application/yaml; charset=utf-8"
_MOST: Final = 1_000_000


def routes() -> list[Route]:
    """Return the routes."""
    item = "/v1/items/{owner}/{name}"
    return [
        Route("/v1/index.json", endpoint(_index)),
        Route("/v1/index-{page:int}.json", endpoint(_index)),
        Route("/v1/search", endpoint(_search)),
        Route("/v1/sha256/{digest}.yaml", endpoint(_by_digest)),
        Route("/v1/items", endpoint(_publish), methods=["POST"]),
        Route(f"{item}.json", endpoint(_item)),
        Route(f"{item}.json", endpoint(_edit), methods=["PATCH"]),
        Route(f"{item}.json", endpoint(_withdraw), methods=["DELETE"]),
        Route(f"{item}/star", endpoint(_star), methods=["PUT", "DELETE"]),
        Route(f"{item}/use", endpoint(_use), methods=["POST"]),
        Route(f"{item}/deprecation", endpoint(_deprecate), methods=["PUT", "DELETE"]),
        Route(f"{item}/official", endpoint(_official), methods=["PUT", "DELETE"]),
        Route(f"{item}/versions/{{version}}/review", endpoint(_review), methods=["PUT"]),
        Route(f"{item}/{{version}}.yaml", endpoint(_content)),
        Route("/v1/audit", endpoint(_audit)),
    ]


def index_document(session: Session, viewer: Viewer, page: int) -> dict[str, Any]:
    """Return a file of the index; its pages count from 1. Raises `NotFound` for one beyond the end."""
    wanted = items.Search(order="name", offset=(page - 1) * PER_INDEX, limit=PER_INDEX)
    found = items.search(session, viewer, wanted)
    if page < 1 or (page > 1 and not found.items):
        raise NotFound(f"the index has no page {page}")
    document: dict[str, Any] = {
        "apiVersion": 1,
        "total": found.total,
        "items": [_brief(each) for each in found.items],
    }
    if page * PER_INDEX < found.total:
        document["next"] = f"index-{page + 1}.json"
    return document


def item_document(session: Session, viewer: Viewer, item: Item) -> dict[str, Any]:
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


def version_document(item: Item, version: Version) -> dict[str, Any]:
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


def _brief(item: Item) -> dict[str, Any]:
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


def _index(given: Exchange) -> Response:
    page = int(given.request.path_params.get("page", 1))
    with given.database.reading() as session:
        document = index_document(session, given.viewer, page)
    return with_etag(given.request, json_bytes(document), "application/json")


def _item(given: Exchange) -> Response:
    with given.database.reading() as session:
        document = item_document(session, given.viewer, _found(session, given))
    return with_etag(given.request, json_bytes(document), "application/json")


def _content(given: Exchange) -> Response:
    with given.database.reading() as session:
        version = items.version(session, given.viewer, _found(session, given), given.path("version"))
        content = items.content(session, version)
    return with_etag(given.request, content.encode(), _YAML, digest=version.digest)


def _by_digest(given: Exchange) -> Response:
    with given.database.reading() as session:
        content = items.by_digest(session, given.viewer, given.path("digest"))
    return with_etag(given.request, content.text.encode(), _YAML, digest=content.digest)


def _search(given: Exchange) -> Response:
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
        document = {"total": found.total, "items": [_brief(each) for each in found.items]}
    return with_etag(given.request, json_bytes(document), "application/json")


def _publish(given: Exchange) -> Response:
    sent = given.json()
    publication = Publication(
        owner=string(sent, "owner") or given.viewer.name,
        content=string(sent, "content"),
        name=string(sent, "name"),
        version=string(sent, "version"),
        note=string(sent, "note"),
        about=about_item(sent),
    )
    with given.database.writing() as session:
        published = publishing.publish(session, given.viewer, given.settings, publication)
        document = {
            "owner": published.item.owner,
            "name": published.item.name,
            **version_document(published.item, published.version),
            "problems": [problem_json(each) for each in published.checked.problems],
        }
    return JSONResponse(document, 201 if published.is_new else 200)


def _edit(given: Exchange) -> Response:
    with given.database.writing() as session:
        item = _found(session, given)
        publishing.edit(session, given.viewer, item, about_item(given.json()))
        document = item_document(session, given.viewer, item)
    return JSONResponse(document)


def _withdraw(given: Exchange) -> Response:
    with given.database.writing() as session:
        publishing.withdraw(session, given.viewer, _found(session, given))
    return Response(status_code=204)


def _star(given: Exchange) -> Response:
    with given.database.writing() as session:
        item = _found(session, given)
        publishing.star(session, given.viewer, item, on=given.request.method == "PUT")
        stars = item.stars
    return JSONResponse({"stars": stars})


def _use(given: Exchange) -> Response:
    with given.database.writing() as session:
        publishing.use(session, _found(session, given))
    return Response(status_code=204)


def _deprecate(given: Exchange) -> Response:
    with given.database.writing() as session:
        item = _found(session, given)
        if given.request.method == "PUT":
            replaced_by = string(given.json(), "replacedBy") if given.body else ""
            publishing.deprecate(session, given.viewer, item, replaced_by=replaced_by)
        else:
            publishing.undeprecate(session, given.viewer, item)
    return Response(status_code=204)


def _official(given: Exchange) -> Response:
    with given.database.writing() as session:
        official = given.request.method == "PUT"
        publishing.make_official(session, given.viewer, _found(session, given), official=official)
    return Response(status_code=204)


def _review(given: Exchange) -> Response:
    sent = given.json()
    with given.database.writing() as session:
        item = _found(session, given)
        version = items.version(session, given.viewer, item, given.path("version"))
        publishing.review(session, given.viewer, item, version, string(sent, "status"), string(sent, "note"))
        document = version_document(item, version)
    return JSONResponse(document)


def _audit(given: Exchange) -> Response:
    with given.database.reading() as session:
        entries = items.audit(session, given.viewer, given.query("item"), given.number("limit", 200, 1000))
    fields = ("id", "at", "actor", "action", "item", "detail")
    return JSONResponse([{field: getattr(each, field) for field in fields} for each in entries])


def _found(session: Session, given: Exchange) -> Item:
    return items.get(session, given.viewer, given.path("owner"), given.path("name"))


def string(sent: Mapping[str, Any], field: str) -> str:
    """Return a field that is a string; empty if it is missing or null. Raises `Invalid`."""
    value = sent.get(field)
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        raise Invalid(f"expected a string as {field}")
    return value


def about_item(sent: Mapping[str, Any]) -> About:
    """Return what a JSON object says of an item. Raises `Invalid`."""

    def one(field: str) -> str | None:
        return string(sent, field) if sent.get(field) is not None else None

    def strings(field: str) -> Sequence[str] | None:
        value = sent.get(field)
        if value is None:
            return None
        if not isinstance(value, list):
            raise Invalid(f"expected a list of strings as {field}")
        return [string({field: each}, field) for each in value]

    return About(
        title=one("title"),
        summary=one("summary"),
        description=one("description"),
        visibility=one("visibility"),
        groups=strings("groups"),
        tags=strings("tags"),
        categories=strings("categories"),
    )


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
