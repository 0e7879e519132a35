"""References to definitions, such as ``marketplace://name/mnist@1.2``, in jobs and definitions."""

import re
from typing import Final, Literal

from pai_runtime.host.locations import NoUrl, checked_url
from pai_task.record import record

Kind = Literal["plain", "name", "item", "url", "path"]

_NAME: Final = re.compile("[a-zA-Z0-9_-]{1,255}")
_OWNER: Final = re.compile("[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,99}")
_ITEM: Final = re.compile("[a-zA-Z0-9_.-]{1,255}")
_VERSION: Final = re.compile("[a-zA-Z0-9][a-zA-Z0-9._+!-]{0,99}")
_DIGEST: Final = re.compile("@sha256:([0-9a-f]{64})$(?!\n)")
_MARKETPLACE: Final = "marketplace://"
_EXPECTED: Final = (
    "marketplace://name/NAME, marketplace://data/NAME, marketplace://script/NAME,"
    " marketplace://prerequisites/itemId/ID, an http or https URL, or the path of a file"
)


class BadReference(Exception):
    """The exception for a text that is not a reference; the message says what was expected."""


@record(frozen=True)
class Reference:
    """A parsed reference to a definition.

    ``plain`` is a name without more, of something in the same file; ``name`` one that a source is asked for,
    of type `type` and of `owner`, a user or group, if these are not empty; ``item`` the id of an item of a
    marketplace server; ``url`` and ``path`` are those of a definition file. `target` is the name, id, URL or
    path itself. `version` and `digest` (64 hexadecimal digits, of the bytes of the definition file) narrow
    what it may be.
    """

    text: str
    kind: Kind
    target: str
    type: str = ""
    version: str = ""
    digest: str = ""
    owner: str = ""


def parse_reference(text: str) -> Reference:
    """Parse a reference. Raises `BadReference`; the text is a user's, and may be anything."""
    pinned = _DIGEST.search(text)
    digest, rest = (pinned[1], text[: pinned.start()]) if pinned else ("", text)
    if _NAME.fullmatch(rest) and not pinned:
        return Reference(text, "plain", rest)
    if rest.startswith(_MARKETPLACE):
        return _in_marketplace(text, rest.removeprefix(_MARKETPLACE), digest)
    scheme = rest.partition(":")[0].lower() if "://" in rest or rest.startswith("file:") else ""
    if scheme in ("http", "https"):
        try:
            return Reference(text, "url", checked_url(rest), digest=digest)
        except NoUrl as error:
            raise BadReference(str(error)) from None
    if scheme not in ("", "file") or rest.startswith("marketplace:"):
        raise BadReference(f"expected {_EXPECTED}")
    path = _file_path(rest) if scheme else rest
    if not path or "\0" in path:
        raise BadReference(f"expected {_EXPECTED}")
    return Reference(text, "path", path, digest=digest)


def is_item_id(text: str) -> bool:
    """Whether a reference can have it as the id of an item."""
    return _ITEM.fullmatch(text) is not None


def is_owner(text: str) -> bool:
    """Whether a reference can have it as the name of the user or group whose item it means."""
    return _OWNER.fullmatch(text) is not None


def published(reference: Reference) -> Reference:
    """Return the reference that a plain name means if nothing in its file has it."""
    return parse_reference(f"marketplace://name/{reference.target}")


def _in_marketplace(text: str, rest: str, digest: str) -> Reference:
    rest, at, version = rest.partition("@")
    kind, _, name = rest.partition("/")
    if at and (digest or not _VERSION.fullmatch(version)):
        raise BadReference(
            "expected a version after '@', such as @1.2 or @sha256:… with 64 hexadecimal digits"
        )
    if kind == "prerequisites":
        name, is_item = name.removeprefix("itemId/"), name.startswith("itemId/")
        if is_item and is_item_id(name) and not version:
            return Reference(text, "item", name, digest=digest)
    elif kind in ("name", "data", "script"):
        owner, slash, own = name.rpartition("/")
        if _NAME.fullmatch(own) and bool(slash) == is_owner(owner):
            wanted = "" if kind == "name" else kind
            return Reference(text, "name", own, wanted, version, digest, owner)
    if kind in ("name", "data", "script") and name:
        expected = "a name of letters, digits, '-' and '_', or OWNER/NAME,"
        raise BadReference(f"expected {expected} after marketplace://{kind}/")
    raise BadReference(f"expected {_EXPECTED}")


def _file_path(text: str) -> str:
    """Return the path in a ``file:`` URL: absolute after ``file://``, else whatever follows the colon."""
    path = text[len("file:") :]
    if path.startswith("//"):
        path = path[2:].removeprefix("localhost")
        if not path.startswith("/"):
            raise BadReference(
                "expected file:///PATH with an absolute path, or file:PATH with a relative one"
            )
    return path
