"""Users, groups, and what proves who somebody is: tokens, and sessions of browsers.

Secrets are random, of 256 bits, and only their SHA-256 is stored: nobody can guess them from it.
"""

import hmac
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from pai_definitions.reference import is_owner
from pai_marketplace.audit import record_action
from pai_marketplace.errors import Conflict, Invalid, NotFound, NotSignedIn
from pai_marketplace.models import Account, Membership, Secret, now
from pai_marketplace.viewer import OPERATOR, Identity, Viewer
from pai_task.record import record

SCOPES: Final = ("read", "publish", "admin")
"""What a token may be for: ``publish`` allows all changes, ``admin`` the rights of admins and reviewers."""
TOKEN_DAYS: Final = 90
SESSION_HOURS: Final = 12

_OPERATOR: Final = OPERATOR.name
_PREFIX: Final = "paim_"
"""Begins every token, so that scanners for leaked secrets know one."""
_TOKEN: Final = re.compile("paim_[A-Za-z0-9_-]{43}")


@record(frozen=True)
class SignedIn:
    """A session of a browser: the `secret` of its cookie, and the token that its forms send against CSRF."""

    viewer: Viewer
    secret: str

    @property
    def csrf(self) -> str:
        """The token that every form of this session has to send back as ``csrf``."""
        return csrf_token(self.secret)


def csrf_token(session_secret: str) -> str:
    """Return the token against CSRF that belongs to a session."""
    return hmac.new(session_secret.encode(), b"csrf", sha256).hexdigest()


def is_csrf_token(session_secret: str, given: str) -> bool:
    """Whether a form comes from a page of this session."""
    return hmac.compare_digest(csrf_token(session_secret).encode(), given.encode("utf-8", "replace"))


def add_account(
    session: Session,
    name: str,
    *,
    group: bool = False,
    admin: bool = False,
    reviewer: bool = False,
    by: str = _OPERATOR,
) -> Account:
    """Add a user or a group. Raises `Conflict` or `Invalid`."""
    if not is_owner(name):
        raise Invalid("expected a name of letters, digits, '.', '-' and '_', at most 100 characters")
    if name == _OPERATOR or session.get(Account, name) is not None:
        raise Conflict(f"there is a user or group {name} already")
    account = Account(name=name, is_group=group, is_admin=admin, is_reviewer=reviewer)
    session.add(account)
    session.flush()
    record_action(session, by, "add-group" if group else "add-user", detail={"name": name})
    return account


def change_user(session: Session, name: str, fields: Mapping[str, Any]) -> None:
    """Change ``is_admin``, ``is_reviewer`` or ``subject`` of a user. Raises `NotFound` or `Conflict`."""
    account = session.get(Account, name)
    if account is None or account.is_group:
        raise NotFound(f"there is no user {name}")
    subject = fields.get("subject")
    if subject and session.scalar(
        select(Account.name).where(Account.subject == subject, Account.name != name)
    ):
        raise Conflict("another user has this subject")
    for field, value in fields.items():
        setattr(account, field, value)
    record_action(session, _OPERATOR, "change-user", detail={"name": name, **fields})


def add_member(session: Session, group: str, user: str, *, by: str = _OPERATOR) -> None:
    """Add a user to a group; a second time changes nothing. Raises `NotFound`."""
    for name, is_group in ((group, True), (user, False)):
        account = session.get(Account, name)
        if account is None or account.is_group != is_group:
            raise NotFound(f"there is no {'group' if is_group else 'user'} {name}")
    if session.get(Membership, (group, user)) is None:
        session.add(Membership(group=group, user=user))
        record_action(session, by, "add-member", detail={"group": group, "user": user})


def remove_member(session: Session, group: str, user: str, *, by: str = _OPERATOR) -> None:
    """Remove a user from a group."""
    session.execute(delete(Membership).where(Membership.group == group, Membership.user == user))
    record_action(session, by, "remove-member", detail={"group": group, "user": user})


def add_token(
    session: Session, user: str, scopes: Sequence[str], *, label: str = "", days: float = TOKEN_DAYS
) -> tuple[Secret, str]:
    """Add a token of a user; returns its entry, and the token, which nobody can see again."""
    if unknown := set(scopes) - set(SCOPES):
        raise Invalid(f"there is no scope {min(unknown)}; expected {', '.join(SCOPES)}")
    account = session.get(Account, user)
    if account is None or account.is_group or account.is_disabled:
        raise NotFound(f"there is no user {user}")
    entry, text = _new_secret(session, user, scopes, timedelta(days=days), label=label)
    record_action(session, user, "add-token", detail={"token": entry.id, "scopes": sorted(scopes)})
    return entry, text


def tokens(session: Session, user: str = "") -> Sequence[Secret]:
    """Return the tokens of a user, or of all; none of them can be used without its text."""
    query = select(Secret).where(~Secret.is_session).order_by(Secret.created_at)
    return session.scalars(query.where(Secret.user == user) if user else query).all()


def revoke(session: Session, id_: str, user: str = "") -> None:
    """Revoke a token by its id, of this user if one is given. Raises `NotFound`."""
    entry = session.get(Secret, id_)
    if entry is None or entry.is_session or (user and entry.user != user):
        raise NotFound(f"there is no token {id_}")
    entry.revoked_at = entry.revoked_at or now()
    record_action(session, user or _OPERATOR, "revoke-token", detail={"token": id_})


def disable(session: Session, user: str) -> None:
    """Disable a user: no token and no session of his is valid any more. Raises `NotFound`."""
    account = session.get(Account, user)
    if account is None:
        raise NotFound(f"there is no user {user}")
    account.is_disabled = True
    session.execute(update(Secret).where(Secret.user == user).values(revoked_at=now()))
    record_action(session, _OPERATOR, "disable", detail={"name": user})


def by_token(session: Session, token: str) -> Viewer:
    """Return whose token it is. Raises `NotSignedIn` if it is unknown, revoked or expired."""
    return _viewer(session, token, is_session=False)


def by_session(session: Session, secret: str) -> SignedIn:
    """Return whose session it is, by the secret of a browser's cookie. Raises `NotSignedIn`."""
    return SignedIn(_viewer(session, secret, is_session=True), secret)


def sign_in(session: Session, token: str) -> SignedIn:
    """Begin a session of a browser for who has a token, with its scopes. Raises `NotSignedIn`."""
    viewer = by_token(session, token)
    entry = session.scalars(select(Secret).where(Secret.digest == _digest(token))).one()
    return begin_session(session, viewer.name, entry.scopes.split())


def sign_in_as(session: Session, identity: Identity, admins: str = "") -> SignedIn:
    """Begin a session for who has signed in at an OpenID provider, with a new account if there is none yet.

    The provider's groups, as far as the marketplace has them, are those of the person from now on; members of
    `admins` are admins. Raises `Conflict` if somebody else has the name, `NotSignedIn` if the account is
    disabled.
    """
    account = session.scalar(select(Account).where(Account.subject == identity.subject).with_for_update())
    if account is None:
        account = _account_of(session, identity)
    if account.is_disabled:
        raise NotSignedIn(f"the account {account.name} is disabled")
    if identity.groups is not None:
        if admins:
            account.is_admin = admins in identity.groups
        _set_memberships(session, account.name, identity.groups)
    return begin_session(session, account.name)


def _account_of(session: Session, identity: Identity) -> Account:
    name = re.sub("[^a-zA-Z0-9._-]+", "-", identity.name).strip("-.")
    if session.get(Account, name) is not None:
        raise Conflict(
            f"there is a user or group {name} already; if that is you, an operator can connect it:"
            f" pai-marketplace user set {name} --subject {shlex.quote(identity.subject)}"
        )
    account = add_account(session, name, by=name)
    account.subject = identity.subject
    return account


def _set_memberships(session: Session, user: str, groups: AbstractSet[str]) -> None:
    present = set(session.scalars(select(Membership.group).where(Membership.user == user)))
    wanted = groups & set(session.scalars(select(Account.name).where(Account.is_group)))
    for group in sorted(wanted - present):
        add_member(session, group, user, by=user)
    for group in sorted(present - wanted):
        remove_member(session, group, user, by=user)


def begin_session(session: Session, user: str, scopes: Sequence[str] = SCOPES) -> SignedIn:
    """Begin a session of a browser for a user who has proved who he is."""
    session.execute(delete(Secret).where(Secret.is_session, Secret.expires_at < now()))
    _, text = _new_secret(session, user, scopes, timedelta(hours=SESSION_HOURS), is_session=True)
    record_action(session, user, "sign-in")
    return by_session(session, text)


def sign_out(session: Session, secret: str) -> None:
    """End the session of a browser."""
    session.execute(delete(Secret).where(Secret.is_session, Secret.digest == _digest(secret)))


def _new_secret(
    session: Session,
    user: str,
    scopes: Sequence[str],
    lasts: timedelta,
    *,
    label: str = "",
    is_session: bool = False,
) -> tuple[Secret, str]:
    text = _PREFIX + secrets.token_urlsafe(32)
    entry = Secret(
        digest=_digest(text),
        user=user,
        is_session=is_session,
        scopes=" ".join(sorted(scopes)),
        label=label[:200],
        expires_at=(datetime.now(timezone.utc) + lasts).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )
    session.add(entry)
    session.flush()
    return entry, text


def _viewer(session: Session, text: str, *, is_session: bool) -> Viewer:
    if not _TOKEN.fullmatch(text):
        raise NotSignedIn("the token is not valid")
    query = select(Secret, Account).join(Account, Account.name == Secret.user)
    found = session.execute(query.where(Secret.digest == _digest(text))).first()
    if found is None:
        raise NotSignedIn("the token is not valid")
    secret, account = found
    if (
        secret.is_session != is_session
        or account.is_disabled
        or secret.revoked_at
        or secret.expires_at < now()
    ):
        raise NotSignedIn("the token is not valid any more")
    groups = session.scalars(select(Membership.group).where(Membership.user == account.name))
    scopes = secret.scopes.split()
    return Viewer(
        account.name,
        frozenset(groups),
        is_admin=account.is_admin and "admin" in scopes,
        is_reviewer=account.is_reviewer and "admin" in scopes,
        can_write="publish" in scopes,
    )


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
