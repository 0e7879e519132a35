"""The tables. Times are UTC in ISO 8601, such as ``2026-11-23T19:55:01.123456Z``, which sorts as text."""

from datetime import datetime, timezone
from uuid import uuid4

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


def now() -> str:
    """Return the current time as the tables have it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Base(DeclarativeBase):
    """The base of all tables."""


class Account(Base):
    """A user or a group: who items belong to. Both have names of one namespace.

    `subject` is who a user is at an OpenID provider, with its issuer; None for others.
    """

    __tablename__ = "accounts"

    name: Mapped[str] = mapped_column(primary_key=True)
    is_group: Mapped[bool] = mapped_column(default=False)
    is_admin: Mapped[bool] = mapped_column(default=False)
    is_reviewer: Mapped[bool] = mapped_column(default=False)
    is_disabled: Mapped[bool] = mapped_column(default=False)
    subject: Mapped[str | None] = mapped_column(unique=True, index=True)
    created_at: Mapped[str] = mapped_column(default=now)


class Membership(Base):
    """A user in a group."""

    __tablename__ = "memberships"

    group: Mapped[str] = mapped_column(ForeignKey("accounts.name"), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("accounts.name"), primary_key=True, index=True)


class Secret(Base):
    """A token, or a session of a browser: what proves who somebody is. Only its SHA-256 is stored.

    `scopes` are words with spaces between them.
    """

    __tablename__ = "secrets"

    id: Mapped[str] = mapped_column(primary_key=True, default=lambda: uuid4().hex[:12])
    digest: Mapped[str] = mapped_column(unique=True)
    user: Mapped[str] = mapped_column(ForeignKey("accounts.name"), index=True)
    is_session: Mapped[bool] = mapped_column(default=False)
    scopes: Mapped[str]
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[str] = mapped_column(default=now)
    expires_at: Mapped[str]
    revoked_at: Mapped[str | None]


class Item(Base):
    """Something that is shared, by its owner's name and its own; what it means is in its versions.

    `type` is that of a definition (``data``, ``script``, …), or ``template`` for a whole job. `latest` is the
    newest approved version; empty if none is. `search_text` has all that is searched, case-folded.
    """

    __tablename__ = "items"
    __table_args__ = (
        UniqueConstraint("owner", "name"),
        # All that decides who sees an item, and in which order: lists are made without reading the texts.
        Index(
            "items_in_lists",
            *("is_withdrawn", "visibility", "latest", "owner", "name", "uses", "type", "id"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=lambda: str(uuid4()))
    owner: Mapped[str] = mapped_column(ForeignKey("accounts.name"))
    name: Mapped[str] = mapped_column(index=True)
    type: Mapped[str] = mapped_column(index=True)
    author: Mapped[str]
    title: Mapped[str] = mapped_column(default="")
    summary: Mapped[str] = mapped_column(default="")
    description: Mapped[str] = mapped_column(Text, default="")
    visibility: Mapped[str] = mapped_column(default="public")
    is_official: Mapped[bool] = mapped_column(default=False)
    is_withdrawn: Mapped[bool] = mapped_column(default=False)
    is_deprecated: Mapped[bool] = mapped_column(default=False)
    replaced_by: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(default="pending")
    latest: Mapped[str] = mapped_column(default="")
    uses: Mapped[int] = mapped_column(default=0)
    stars: Mapped[int] = mapped_column(default=0)
    search_text: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[str] = mapped_column(default=now)
    updated_at: Mapped[str] = mapped_column(default=now, index=True)

    groups: Mapped[list["ItemGroup"]] = relationship(lazy="selectin", cascade="all, delete-orphan")
    labels: Mapped[list["Label"]] = relationship(
        lazy="selectin", cascade="all, delete-orphan", order_by="Label.text"
    )

    @property
    def full_name(self) -> str:
        """Its name with that of its owner, such as ``team/mnist``."""
        return f"{self.owner}/{self.name}"

    @property
    def tags(self) -> list[str]:
        """The words by which it is found."""
        return [each.text for each in self.labels if each.kind == "tag"]

    @property
    def categories(self) -> list[str]:
        """What OpenPAI's clients sort it under."""
        return [each.text for each in self.labels if each.kind == "category"]

    @property
    def group_names(self) -> list[str]:
        """The groups that may see it, if its visibility is ``groups``."""
        return sorted(each.group for each in self.groups)


class ItemGroup(Base):
    """A group that may see an item."""

    __tablename__ = "item_groups"

    item_id: Mapped[str] = mapped_column(ForeignKey("items.id"), primary_key=True)
    group: Mapped[str] = mapped_column(primary_key=True, index=True)


class Label(Base):
    """A tag or a category of an item; `kind` says which."""

    __tablename__ = "labels"

    item_id: Mapped[str] = mapped_column(ForeignKey("items.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(primary_key=True, index=True)


class Content(Base):
    """The text of a definition file or a job, by the SHA-256 of its bytes; it is never changed."""

    __tablename__ = "contents"

    digest: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class Version(Base):
    """A version of an item. Of its columns, only those of the review are ever changed.

    `kind` is ``definition`` or ``job``. `number` counts the versions of the item from 1.
    """

    __tablename__ = "versions"
    __table_args__ = (UniqueConstraint("item_id", "version"), UniqueConstraint("item_id", "number"))

    id: Mapped[str] = mapped_column(primary_key=True, default=lambda: str(uuid4()))
    item_id: Mapped[str] = mapped_column(ForeignKey("items.id"))
    number: Mapped[int]
    version: Mapped[str]
    kind: Mapped[str]
    digest: Mapped[str] = mapped_column(ForeignKey("contents.digest"), index=True)
    author: Mapped[str]
    note: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[str] = mapped_column(default=now)
    status: Mapped[str] = mapped_column(default="pending")
    reviewer: Mapped[str] = mapped_column(default="")
    review_note: Mapped[str] = mapped_column(Text, default="")


class Requirement(Base):
    """A reference in a version to another item; `owner` is empty where the reference names none."""

    __tablename__ = "requirements"
    __table_args__ = (Index("requirements_by_name", "name", "owner"),)

    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"), primary_key=True)
    reference: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    name: Mapped[str]


class Star(Base):
    """A user who likes an item."""

    __tablename__ = "stars"

    item_id: Mapped[str] = mapped_column(ForeignKey("items.id"), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("accounts.name"), primary_key=True)


class Audit(Base):
    """An entry of the audit trail: who did what, to what, when. It is only added to."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[str] = mapped_column(default=now)
    actor: Mapped[str]
    action: Mapped[str]
    item: Mapped[str] = mapped_column(default="", index=True)
    detail: Mapped[str] = mapped_column(Text, default="")
