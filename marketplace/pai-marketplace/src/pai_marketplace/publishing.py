"""Writing: items and their versions, which never change; each change is in the audit trail."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from pai_marketplace import rights
from pai_marketplace.audit import record_action
from pai_marketplace.checking import NAME, VERSION, Checked, check_content
from pai_marketplace.errors import Conflict, Invalid, NotFound
from pai_marketplace.models import Account, Content, Item, ItemGroup, Label, Requirement, Star, Version, now
from pai_marketplace.settings import Settings
from pai_marketplace.viewer import Viewer
from pai_task.record import record

VISIBILITIES = ("public", "private", "groups")

_LONGEST = {"title": 200, "summary": 1000, "description": 100_000, "note": 10_000, "label": 50}
_MOST_LABELS = 30
_MOST_SEARCHED = 1000
"""Characters of a description that are searched."""
_OFFICIAL = "official example"
"""OpenPAI's category of items that only admins change."""


@record(frozen=True)
class About:
    """What is said of an item; a field that is None stays as it is, or comes from the content at first."""

    title: str | None = None
    summary: str | None = None
    description: str | None = None
    visibility: str | None = None
    groups: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    categories: Sequence[str] | None = None


@record(frozen=True)
class Publication:
    """A version to be published. Without a `name`, the content's own is taken; likewise `version`.

    Where neither states a version, it is the next number.
    """

    owner: str
    content: str
    name: str = ""
    version: str = ""
    type: str = ""
    note: str = ""
    about: About = About()


@record(frozen=True)
class Published:
    """An item and its version; `is_new` is False if the same bytes had been published as it before."""

    item: Item
    version: Version
    checked: Checked
    is_new: bool


def publish(session: Session, viewer: Viewer, settings: Settings, given: Publication) -> Published:
    """Publish a version, and the item if it is the first.

    Raises `Forbidden`, `Invalid`, or `Conflict` if the version has other bytes already.
    """
    rights.check(viewer, rights.may_publish(viewer, given.owner), f"publish items of {given.owner}")
    _lock_owner(session, given.owner)
    checked = check_content(session, viewer, given.content, given.name)
    name = given.name or checked.name
    _check_name(name, checked)
    item = session.scalar(select(Item).where(Item.owner == given.owner, Item.name == name))
    if item is None:
        item = _new_item(session, viewer, given, checked, name)
    elif item.is_withdrawn:
        raise Conflict(f"{item.full_name} was withdrawn; its name is not given again")
    rights.check(viewer, rights.may_change(viewer, item), f"publish versions of {item.full_name}")
    wanted_type = given.type if checked.kind == "job" and given.type else checked.type
    if item.type != wanted_type:
        raise Conflict(
            f"{item.full_name} is of type {item.type}; a version of type {wanted_type} is another item"
        )
    added, is_new = _version(session, viewer, settings, item, given, checked)
    if is_new:
        _describe(session, viewer, item, given.about)
        _log(
            session, viewer, "publish", item, version=added.version, digest=added.digest, status=added.status
        )
    session.flush()
    return Published(item, added, checked, is_new)


def edit(session: Session, viewer: Viewer, item: Item, about: About) -> None:
    """Change what is said of an item, and who sees it. Raises `Forbidden` or `Invalid`."""
    _check_change(viewer, item, "change")
    _describe(session, viewer, item, about)
    item.updated_at = now()
    _log(
        session,
        viewer,
        "edit",
        item,
        **{key: value for key, value in vars(about).items() if value is not None and key != "description"},
    )


def review(
    session: Session, viewer: Viewer, item: Item, version: Version, status: str, note: str = ""
) -> None:
    """Approve or reject a version. Raises `Forbidden` or `Invalid`."""
    rights.check(viewer, rights.may_review(viewer, version), f"review {item.full_name}")
    if status not in ("approved", "rejected"):
        raise Invalid("expected approved or rejected")
    _lock_owner(session, item.owner)
    version.status, version.reviewer, version.review_note = status, viewer.name, _short("note", note)
    session.flush()
    _settle(session, item)
    _log(session, viewer, "review", item, version=version.version, status=status, note=note)


def deprecate(session: Session, viewer: Viewer, item: Item, *, replaced_by: str = "") -> None:
    """Advise against an item, and name what replaces it, such as ``team/mnist``. Raises `Forbidden`."""
    _check_change(viewer, item, "deprecate")
    owner, slash, name = replaced_by.partition("/")
    if replaced_by and not (
        slash and session.scalar(select(Item.id).where(Item.owner == owner, Item.name == name))
    ):
        raise Invalid(f"there is no item {replaced_by!r}; expected OWNER/NAME")
    item.is_deprecated, item.replaced_by = True, replaced_by
    _log(session, viewer, "deprecate", item, replaced_by=replaced_by)


def undeprecate(session: Session, viewer: Viewer, item: Item) -> None:
    """Take a deprecation back. Raises `Forbidden`."""
    _check_change(viewer, item, "deprecate")
    item.is_deprecated, item.replaced_by = False, ""
    _log(session, viewer, "undeprecate", item)


def make_official(session: Session, viewer: Viewer, item: Item, *, official: bool) -> None:
    """Make an item official, so that only admins change it, or take that back. Raises `Forbidden`."""
    rights.check(viewer, rights.may_administer(viewer), "make items official")
    item.is_official = official
    _log(session, viewer, "official" if official else "unofficial", item)


def withdraw(session: Session, viewer: Viewer, item: Item) -> None:
    """Hide an item from everybody for good; its name is not given again. Raises `Forbidden`."""
    _check_change(viewer, item, "withdraw")
    item.is_withdrawn = True
    _log(session, viewer, "withdraw", item)


def star(session: Session, viewer: Viewer, item: Item, *, on: bool = True) -> None:
    """Star an item, or take the star back; a second time changes nothing. Raises `Forbidden`."""
    rights.check(viewer, rights.may_star(viewer), f"star {item.full_name}")
    session.execute(select(Item.id).where(Item.id == item.id).with_for_update())
    existing = session.get(Star, (item.id, viewer.name))
    if on and existing is None:
        session.add(Star(item_id=item.id, user=viewer.name))
    elif not on and existing is not None:
        session.delete(existing)
    session.flush()
    item.stars = session.scalar(select(func.count()).where(Star.item_id == item.id)) or 0


def use(session: Session, item: Item) -> None:
    """Count a use of an item."""
    session.execute(update(Item).where(Item.id == item.id).values(uses=Item.uses + 1))


def slug(title: str) -> str:
    """Return a name for what has only a title."""
    return re.sub("[^a-zA-Z0-9_-]+", "-", title).strip("-")[:100]


def _lock_owner(session: Session, owner: str) -> None:
    """Let nobody else write items of an owner before the end of the transaction."""
    if session.scalar(select(Account.name).where(Account.name == owner).with_for_update()) is None:
        raise NotFound(f"there is no user or group {owner}")


def _check_name(name: str, checked: Checked) -> None:
    if not NAME.fullmatch(name):
        raise Invalid("expected a name of letters, digits, '-' and '_', at most 100 characters")
    if checked.kind == "definition" and checked.name != name:
        raise Invalid(f"the definition is called '{checked.name}'; expected '{name}', as the item")


def _new_item(session: Session, viewer: Viewer, given: Publication, checked: Checked, name: str) -> Item:
    item = Item(
        owner=given.owner,
        name=name,
        type=given.type if checked.kind == "job" and given.type else checked.type,
        author=viewer.name,
        title=checked.title[: _LONGEST["title"]],
        summary=checked.summary[: _LONGEST["summary"]],
        description=checked.usage[: _LONGEST["description"]],
    )
    session.add(item)
    session.flush()
    _set_labels(item, "tag", checked.tags)
    return item


def _version(
    session: Session, viewer: Viewer, settings: Settings, item: Item, given: Publication, checked: Checked
) -> tuple[Version, bool]:
    """Return the version, and whether it is new."""
    if given.version and checked.version and given.version != checked.version:
        raise Invalid(f"the content says that it is version {checked.version}; expected {given.version}")
    if given.version and not VERSION.fullmatch(given.version):
        raise Invalid("expected a version of letters, digits, '.', '_', '+' and '-'")
    data = given.content.encode("utf-8")
    digest = sha256(data).hexdigest()
    existing = session.scalars(select(Version).where(Version.item_id == item.id)).all()
    number = max((each.number for each in existing), default=0) + 1
    wanted = given.version or checked.version
    if not wanted:
        newest = max(existing, key=lambda each: each.number, default=None)
        if newest and newest.digest == digest:
            return newest, False
        taken = {each.version for each in existing}
        wanted = next(str(each) for each in range(number, 2 * number + 1) if str(each) not in taken)
    for each in existing:
        if each.version == wanted:
            if each.digest == digest:
                return each, False
            raise Conflict(
                f"{item.full_name} has a version {wanted} with other content; versions never change"
            )
    if session.get(Content, digest) is None:
        _add_content(session, digest, given.content)
    added = Version(
        item_id=item.id,
        number=number,
        version=wanted,
        kind=checked.kind,
        digest=digest,
        author=viewer.name,
        note=_short("note", given.note),
        status="pending" if settings.review else "approved",
    )
    session.add(added)
    session.flush()
    for each_reference in {reference.text: reference for reference in checked.requires}.values():
        session.add(
            Requirement(
                version_id=added.id,
                reference=each_reference.text,
                owner=each_reference.owner,
                name=each_reference.target,
            )
        )
    _settle(session, item)
    item.updated_at = added.created_at
    return added, True


def _add_content(session: Session, digest: str, text: str) -> None:
    """Add a content that another owner may be adding at the same time."""
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - of the other dialect

        session.execute(insert(Content).values(digest=digest, text=text).on_conflict_do_nothing())
    else:
        session.add(Content(digest=digest, text=text))
        session.flush()


def _settle(session: Session, item: Item) -> None:
    """Set what an item has of its versions."""
    query = select(Version.version, Version.status).where(Version.item_id == item.id)
    found = session.execute(query.order_by(Version.number.desc())).all()
    approved = [version for version, status in found if status == "approved"]
    item.latest = approved[0] if approved else ""
    item.status = "approved" if approved else found[0][1]


def _describe(session: Session, viewer: Viewer, item: Item, about: About) -> None:
    for field in ("title", "summary", "description"):
        text = getattr(about, field)
        if text is not None:
            setattr(item, field, _short(field, text))
    if about.visibility is not None:
        if about.visibility not in VISIBILITIES:
            raise Invalid(f"expected a visibility of {', '.join(VISIBILITIES)}")
        item.visibility = about.visibility
    if about.groups is not None:
        _set_groups(session, item, about.groups)
    if about.tags is not None:
        _set_labels(item, "tag", about.tags)
    if about.categories is not None:
        official = _OFFICIAL in about.categories
        if official != (_OFFICIAL in item.categories):
            rights.check(viewer, rights.may_administer(viewer), "make items official")
            item.is_official = official
        _set_labels(item, "category", about.categories)
    texts = (item.owner, item.name, item.title, item.summary, item.description[:_MOST_SEARCHED], *item.tags)
    item.search_text = "\n".join(texts).casefold()
    session.flush()


def _set_groups(session: Session, item: Item, groups: Sequence[str]) -> None:
    wanted = dict.fromkeys(groups)
    known = set(session.scalars(select(Account.name).where(Account.name.in_(wanted), Account.is_group)))
    if unknown := wanted.keys() - known:
        raise Invalid(f"there is no group {min(unknown)}")
    session.execute(delete(ItemGroup).where(ItemGroup.item_id == item.id))
    session.expire(item, ["groups"])
    session.add_all(ItemGroup(item_id=item.id, group=each) for each in wanted)
    session.flush()


def _set_labels(item: Item, kind: str, texts: Sequence[str]) -> None:
    wanted = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(wanted) > _MOST_LABELS or any(len(each) > _LONGEST["label"] for each in wanted):
        raise Invalid(
            f"expected at most {_MOST_LABELS} of at most {_LONGEST['label']} characters each: {kind}"
        )
    kept = [each for each in item.labels if each.kind != kind or each.text in wanted]
    present = {each.text for each in kept if each.kind == kind}
    item.labels = [*kept, *(Label(kind=kind, text=each) for each in wanted if each not in present)]


def _check_change(viewer: Viewer, item: Item, what: str) -> None:
    rights.check(viewer, rights.may_change(viewer, item), f"{what} {item.full_name}")


def _short(field: str, text: str) -> str:
    if len(text) > _LONGEST[field]:
        raise Invalid(f"expected a {field} of at most {_LONGEST[field]} characters, found {len(text)}")
    if "\0" in text:
        raise Invalid(f"expected a {field} without NUL characters")
    return text


def _log(session: Session, viewer: Viewer, action: str, item: Item, **detail: Any) -> None:
    record_action(session, viewer.name, action, item.full_name, detail)
