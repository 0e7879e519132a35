"""The pages that show items: the list with its search, one item, and what differs between its versions."""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from pai_marketplace import items, rights
from pai_marketplace.checking import read_definition
from pai_marketplace.models import Item, Version
from pai_marketplace.pages import markdown
from pai_marketplace.pages.differences import differences
from pai_marketplace.pages.highlighting import yaml_lines
from pai_marketplace.pages.site import Visit
from pai_marketplace.pages.use_form import fields
from pai_runtime.definitions import Definition

_ON_A_PAGE: Final = 20
_MOST_PAGES: Final = 10_000
_MOST_TAGS: Final = 100


def list_page(visit: Visit) -> Response:
    """Show the items that have some words and properties, a page of them."""
    given = visit.request.query_params
    query = {name: given.get(name, "").replace("\0", "").strip() for name in ("q", "type", "tag", "author")}
    page = _number(given.get("page", ""))
    found = items.search(
        visit.session,
        visit.viewer,
        items.Search(
            words=query["q"],
            type=query["type"],
            author=query["author"],
            tags=(query["tag"],) if query["tag"] else (),
            offset=(page - 1) * _ON_A_PAGE,
            limit=_ON_A_PAGE,
        ),
    )
    wanted = {name: text for name, text in query.items() if text}
    types = [each for each, _ in items.types(visit.session, visit.viewer)]
    tags = [each for each, _ in items.labels(visit.session, visit.viewer, "tag")[:_MOST_TAGS]]
    return visit.page(
        "list.html",
        here="list",
        query=query,
        is_search=bool(wanted),
        types=_with(types, query["type"]),
        tags=_with(tags, query["tag"]),
        items=found.items,
        total=found.total,
        page=page,
        pages=-(-found.total // _ON_A_PAGE),
        page_url=lambda number: visit.url("/", **wanted, page=str(number)),
    )


def item_page(visit: Visit) -> Response:
    """Show an item in the version that is asked for; by default the newest approved."""
    item, version = asked(visit)
    definition, text = text_of(visit, item, version)
    viewer, session = visit.viewer, visit.session
    return visit.page(
        "item.html",
        item=item,
        version=version,
        asked_version={} if version.version == item.latest else {"version": version.version},
        versions=items.versions(session, viewer, item),
        replacement=_item(visit, item.replaced_by),
        usage=markdown.html(definition.usage if definition else ""),
        description=markdown.html(item.description),
        variables=fields(definition, {}) if definition else (),
        lines=yaml_lines(text),
        requires=items.requires(session, viewer, version),
        required_by=items.required_by(session, viewer, item),
        may_change=rights.may_change(viewer, item),
        may_star=rights.may_star(viewer),
        has_starred=items.has_starred(session, viewer, item),
    )


def differences_page(visit: Visit) -> Response:
    """Show what differs between two versions."""
    item, _ = asked(visit)
    given = visit.request.query_params
    old, new = (_version(visit, item, given.get(name, "")) for name in ("from", "to"))
    texts = [items.content(visit.session, each) for each in (old, new)]
    return visit.page("differences.html", item=item, old=old, new=new, lines=differences(*texts))


def asked(visit: Visit) -> tuple[Item, Version]:
    """Return the item and the version that an address names. Raises `NotFound`."""
    path = visit.request.path_params
    item = items.get(visit.session, visit.viewer, path["owner"], path["name"])
    return item, _version(visit, item, visit.request.query_params.get("version", ""))


def text_of(visit: Visit, item: Item, version: Version) -> tuple[Definition | None, str]:
    """Return the definition that a version is, None if it is a whole job, and its text."""
    text = items.content(visit.session, version)
    return (read_definition(text, item.name) if version.kind == "definition" else None), text


def _version(visit: Visit, item: Item, number: str) -> Version:
    return items.version(visit.session, visit.viewer, item, number)


def _item(visit: Visit, full_name: str) -> Item | None:
    """Return an item that the viewer may see, else None."""
    owner, _, name = full_name.partition("/")
    found = items.named(visit.session, visit.viewer, owner, name) if owner else ()
    return found[0] if found else None


def _with(choices: Sequence[str], chosen: str) -> Sequence[str]:
    """Return the choices, with the chosen one if nothing that is found has it."""
    return choices if not chosen or chosen in choices else [chosen, *choices]


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 1  # noqa: PLR2004 - digits
    return max(1, min(number, _MOST_PAGES))
