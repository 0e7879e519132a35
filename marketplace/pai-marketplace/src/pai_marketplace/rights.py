"""Who may do what; nothing else decides it."""

from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, true

from pai_marketplace.errors import Forbidden, NotSignedIn
from pai_marketplace.models import Item, ItemGroup, Version
from pai_marketplace.viewer import Viewer


def owns(viewer: Viewer, owner: str) -> bool:
    """Whether items of this owner, a user or a group, are the viewer's own."""
    return owner != "" and (owner == viewer.name or owner in viewer.groups)


def may_see(viewer: Viewer, item: Item) -> bool:
    """Whether the viewer may know that an item exists; the same as `visible`, of one item."""
    if item.is_withdrawn:
        return False
    if viewer.is_admin or owns(viewer, item.owner):
        return True
    if not item.latest and not viewer.is_reviewer:
        return False
    return item.visibility == "public" or (
        item.visibility == "groups" and not viewer.groups.isdisjoint(item.group_names)
    )


def visible(viewer: Viewer) -> ColumnElement[bool]:
    """Return the condition that `may_see` is, for a query of items."""
    if viewer.is_admin:
        return ~Item.is_withdrawn
    shared = Item.visibility == "public"
    if viewer.groups:
        grouped = select(ItemGroup.item_id).where(ItemGroup.group.in_(viewer.groups))
        shared = or_(shared, and_(Item.visibility == "groups", Item.id.in_(grouped)))
    approved: Any = true() if viewer.is_reviewer else Item.latest != ""
    own = Item.owner.in_([viewer.name, *viewer.groups] if viewer.name else [])
    return and_(~Item.is_withdrawn, or_(own, and_(shared, approved)))


def may_see_version(viewer: Viewer, item: Item, version: Version) -> bool:
    """Whether the viewer may read a version of an item that he may see."""
    if version.status == "approved":
        return True
    return viewer.is_admin or viewer.is_reviewer or owns(viewer, item.owner)


def may_publish(viewer: Viewer, owner: str) -> bool:
    """Whether the viewer may publish items of this owner."""
    return viewer.can_write and (viewer.is_admin or owns(viewer, owner))


def may_change(viewer: Viewer, item: Item) -> bool:
    """Whether the viewer may publish versions of an item, describe, share, deprecate and withdraw it."""
    return may_publish(viewer, item.owner) and (viewer.is_admin or not item.is_official)


def may_administer(viewer: Viewer) -> bool:
    """Whether the viewer may make items official, and read the audit trail."""
    return viewer.is_admin and viewer.can_write


def reviews(viewer: Viewer) -> bool:
    """Whether the viewer is one of those who review what others publish."""
    return (viewer.is_admin or viewer.is_reviewer) and viewer.can_write


def may_review(viewer: Viewer, version: Version) -> bool:
    """Whether the viewer may approve or reject a version; nobody does for what is his own."""
    return reviews(viewer) and viewer.name != version.author


def may_star(viewer: Viewer) -> bool:
    """Whether the viewer may star what he sees."""
    return viewer.name != "" and viewer.can_write


def check(viewer: Viewer, permitted: bool, what: str) -> None:  # noqa: FBT001 - the answer of one of the above
    """Raise `Forbidden`, or `NotSignedIn` for nobody, unless it is permitted."""
    if permitted:
        return
    if not viewer.name:
        raise NotSignedIn(f"sign in to {what}")
    raise Forbidden(f"{viewer.name} has no right to {what}")
