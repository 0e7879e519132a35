"""Reading: search, items, their versions, and what requires what; everybody gets what he may see."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, String, and_, func, or_, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from pai_marketplace import rights
from pai_marketplace.errors import NotFound
from pai_marketplace.models import Audit, Content, Item, Label, Requirement, Star, Version
from pai_marketplace.viewer import Viewer
from pai_task.record import record

_ORDERS: Final[Mapping[str, tuple[ColumnElement[Any] | InstrumentedAttribute[str], ...]]] = {
    "uses": (Item.uses.desc(), Item.owner, Item.name),
    "stars": (Item.stars.desc(), Item.owner, Item.name),
    "updated": (Item.updated_at.desc(), Item.owner, Item.name),
    "name": (Item.name, Item.owner),
}
_MOST_PENDING = 100
_MOST_WORDS = 20
_TRIGRAM = 3
"""Characters of the parts by which SQLite's index knows texts; it finds no shorter word."""
_OF_TEXTS = text("SELECT item_id FROM item_texts WHERE item_texts MATCH :phrases").columns(item_id=String)
ORDERS = tuple(_ORDERS)
"""By what a search may be sorted; the first is the default."""

_AT_ONCE = 500
"""Items that one query asks for: databases limit the parameters."""


@record(frozen=True)
class Search:
    """What is looked for; an empty field means anything. All `words` must be in the texts of an item.

    `tags` and `categories`: it has all of these tags, and one of these categories.
    """

    words: str = ""
    type: str = ""
    owner: str = ""
    author: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: str = ""
    order: str = "uses"
    offset: int = 0
    limit: int = 50


@record(frozen=True)
class Found:
    """A page of items, and how many there are in all."""

    items: Sequence[Item]
    total: int


@record(frozen=True)
class Requires:
    """A reference of a version, and the item that it means; None if that is not one that may be seen."""

    reference: str
    item: Item | None


def search(session: Session, viewer: Viewer, wanted: Search) -> Found:
    """Return what a viewer finds, the most used first unless another order is asked for."""
    conditions = [rights.visible(viewer), *_has_words(session, wanted.words), *_conditions(wanted)]
    order = _ORDERS.get(wanted.order, _ORDERS["uses"])
    # One pass over the texts both counts and sorts, and what is sorted are not whole rows.
    matches = select(Item.id, func.count().over()).where(*conditions).order_by(*order)
    rows = session.execute(matches.offset(wanted.offset).limit(wanted.limit)).all()
    page = [id_ for id_, _ in rows]
    total = rows[0][1] if rows else 0
    if not rows and (wanted.offset or not wanted.limit):
        total = session.scalar(select(func.count(Item.id)).where(*conditions)) or 0
    found: dict[str, Item] = {}
    for start in range(0, len(page), _AT_ONCE):
        query = select(Item).where(Item.id.in_(page[start : start + _AT_ONCE]))
        found |= {item.id: item for item in session.scalars(query)}
    return Found([found[id_] for id_ in page if id_ in found], total)


def get(session: Session, viewer: Viewer, owner: str, name: str) -> Item:
    """Return an item. Raises `NotFound`."""
    if found := named(session, viewer, owner, name):
        return found[0]
    raise NotFound(f"there is no item {owner}/{name}, or you may not see it")


def by_id(session: Session, viewer: Viewer, id_: str) -> Item | None:
    """Return the item of an id; None if there is none that the viewer may see."""
    return session.scalar(select(Item).where(Item.id == id_, rights.visible(viewer)))


def named(session: Session, viewer: Viewer, owner: str, name: str) -> Sequence[Item]:
    """Return the items of a name, of this owner if it is not empty."""
    query = select(Item).where(Item.name == name, rights.visible(viewer)).order_by(Item.owner)
    return session.scalars(query.where(Item.owner == owner) if owner else query).all()


def versions(session: Session, viewer: Viewer, item: Item) -> Sequence[Version]:
    """Return the versions of an item that the viewer may read, newest first."""
    query = select(Version).where(Version.item_id == item.id).order_by(Version.number.desc())
    return [each for each in session.scalars(query) if rights.may_see_version(viewer, item, each)]


def version(session: Session, viewer: Viewer, item: Item, wanted: str = "") -> Version:
    """Return a version of an item; by default its newest approved, else its newest. Raises `NotFound`."""
    query = select(Version).where(Version.item_id == item.id)
    if wanted or item.latest:
        query = query.where(Version.version == (wanted or item.latest))
    found = session.scalars(query.order_by(Version.number.desc()).limit(1)).first()
    if found is None or not rights.may_see_version(viewer, item, found):
        raise NotFound(f"{item.full_name} has no version {wanted}, or you may not see it")
    return found


def pending(session: Session, viewer: Viewer) -> Sequence[tuple[Item, Version]]:
    """Return the versions that wait for the viewer's review, oldest first, and a limited number of them."""
    query = (
        select(Item, Version)
        .join(Version, Version.item_id == Item.id)
        .where(Version.status == "pending", Version.author != viewer.name, rights.visible(viewer))
        .order_by(Version.created_at)
        .limit(_MOST_PENDING)
    )
    return [(item, each) for item, each in session.execute(query) if rights.may_review(viewer, each)]


def newest(session: Session, viewer: Viewer, of: Sequence[Item]) -> Mapping[str, tuple[Version, str]]:
    """Return, by the ids of these items, what `version` is of each, with its text; all by a few queries."""
    found = {}
    for start in range(0, len(of), _AT_ONCE):
        some = of[start : start + _AT_ONCE]
        query = (
            select(Version, Content.text)
            .join(Content, Content.digest == Version.digest)
            .join(Item, and_(Item.id == Version.item_id, Item.latest == Version.version))
            .where(Item.id.in_([each.id for each in some]))
        )
        found.update({each.item_id: (each, content) for each, content in session.execute(query)})
        for item in some:
            if not item.latest:
                only = version(session, viewer, item)
                found[item.id] = (only, content(session, only))
    return found


def by_digest(session: Session, viewer: Viewer, digest: str) -> Content:
    """Return a content by its SHA-256, of any version that the viewer may read. Raises `NotFound`."""
    query = (
        select(Version, Item).join(Item, Item.id == Version.item_id).where(Version.digest == digest)
    ).where(rights.visible(viewer))
    if any(rights.may_see_version(viewer, item, each) for each, item in session.execute(query)):
        return session.get_one(Content, digest)
    raise NotFound(f"there is nothing with the digest sha256:{digest}, or you may not see it")


def content(session: Session, of: Version) -> str:
    """Return the text of a version."""
    return session.get_one(Content, of.digest).text


def requires(session: Session, viewer: Viewer, of: Version) -> Sequence[Requires]:
    """Return what a version requires from the marketplace, in the order of the references."""
    query = select(Requirement).where(Requirement.version_id == of.id).order_by(Requirement.reference)
    found = []
    for each in session.scalars(query):
        meant = named(session, viewer, each.owner, each.name)
        found.append(Requires(each.reference, meant[0] if len(meant) == 1 else None))
    return found


def required_by(session: Session, viewer: Viewer, item: Item) -> Sequence[Item]:
    """Return the items whose newest approved version requires an item."""
    refers = and_(Requirement.name == item.name, Requirement.owner.in_(["", item.owner]))
    query = (
        select(Item)
        .join(Version, and_(Version.item_id == Item.id, Version.version == Item.latest))
        .join(Requirement, Requirement.version_id == Version.id)
        .where(refers, rights.visible(viewer))
        .order_by(Item.owner, Item.name)
    )
    return session.scalars(query).unique().all()


def has_starred(session: Session, viewer: Viewer, item: Item) -> bool:
    """Whether the viewer has starred an item."""
    return bool(viewer.name) and session.get(Star, (item.id, viewer.name)) is not None


def labels(session: Session, viewer: Viewer, kind: str) -> Sequence[tuple[str, int]]:
    """Return the tags, or the categories (``tag``, ``category``), of visible items, with their numbers."""
    query = (
        select(Label.text, func.count())
        .where(Label.kind == kind, Label.item_id.in_(select(Item.id).where(rights.visible(viewer))))
        .group_by(Label.text)
        .order_by(func.count().desc(), Label.text)
    )
    return [(label, count) for label, count in session.execute(query)]


def types(session: Session, viewer: Viewer) -> Sequence[tuple[str, int]]:
    """Return the types of visible items, with their numbers."""
    query = select(Item.type, func.count()).where(rights.visible(viewer)).group_by(Item.type)
    return [(type_, count) for type_, count in session.execute(query.order_by(Item.type))]


def audit(session: Session, viewer: Viewer, item: str = "", limit: int = 200) -> Sequence[Audit]:
    """Return the newest entries of the audit trail, of one item's full name if given. Raises `Forbidden`."""
    rights.check(viewer, rights.may_administer(viewer), "read the audit trail")
    query = select(Audit).order_by(Audit.id.desc()).limit(limit)
    return session.scalars(query.where(Audit.item == item) if item else query).all()


def _has_words(session: Session, words: str) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that all these words are somewhere in the texts of an item."""
    wanted = words.casefold().split()[:_MOST_WORDS]
    if session.get_bind().dialect.name == "sqlite":
        phrases = ['"' + each.replace('"', '""') + '"' for each in wanted if len(each) >= _TRIGRAM]
        if phrases:
            yield Item.id.in_(_OF_TEXTS.bindparams(phrases=" ".join(phrases)))
        wanted = [each for each in wanted if len(each) < _TRIGRAM]
    for each in wanted:  # PostgreSQL's index is used for these
        yield Item.search_text.contains(each, autoescape=True)


def _conditions(wanted: Search) -> Iterator[ColumnElement[bool]]:
    if wanted.type:
        yield Item.type == wanted.type
    if wanted.owner:
        yield Item.owner == wanted.owner
    if wanted.author:
        yield Item.author == wanted.author
    if wanted.name:
        yield or_(Item.name == wanted.name, Item.title == wanted.name)
    if wanted.status:
        yield Item.status == wanted.status
    for tag in wanted.tags:
        yield Item.id.in_(select(Label.item_id).where(Label.kind == "tag", Label.text == tag))
    if wanted.categories:
        of_one = select(Label.item_id).where(Label.kind == "category", Label.text.in_(wanted.categories))
        yield Item.id.in_(of_one)
