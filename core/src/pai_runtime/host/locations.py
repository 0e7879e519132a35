"""Locations of definitions: normalised URLs, and containment."""

import re
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from pai_document.url import PORTS, split_url

EMBEDDED: Final = "embedded"
"""The location of the runtime's own definitions, and the name of their source."""

FILE: Final = "file:"
"""The prefix of the origin of a file named by its path, absolute or relative to the job's directory."""

_QUERY: Final = re.compile(
    r"(?P<before>https?://[^?#]*)[?](?P<query>[^#]+?)(?P<after>#.*|@sha256:[0-9a-f]{64})?",
    re.DOTALL | re.IGNORECASE,
)
_NAMED_QUERY: Final = re.compile("sha256-[0-9a-f]{8}")


class NoUrl(Exception):
    """The exception for a text that is not a usable URL; the message says what was expected."""


def checked_url(text: str) -> str:
    """Return a URL if it is valid and has no password, which would end up in logs. Raises `NoUrl` if not."""
    url = split_url(text)
    if url is None:
        raise NoUrl("expected a URL, such as https://example.org/definitions/mnist.yaml")
    if url.username is not None:
        raise NoUrl("a URL must have no user name or password; configure a source with a token instead")
    return text


def canonical(url: str) -> str:
    """Return a URL in canonical form: without fragment, dot segments and the default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port not in (None, PORTS.get(parts.scheme)) else ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{host}{port}{_without_dots(parts.path)}{query}"


def named(location: str) -> str:
    """Return a location or reference without its URL's query, which may be secret, for messages and locks.

    In its place are a few digits of its digest, by which two of them can be distinguished.
    """
    found = _QUERY.fullmatch(location)
    if found is None or _NAMED_QUERY.fullmatch(found["query"]):
        return location
    digest = sha256(found["query"].encode(errors="surrogatepass")).hexdigest()
    return f"{found['before']}?sha256-{digest[:8]}{found['after'] or ''}"


def is_url(location: str) -> bool:
    """Return whether a location is a URL, and not a path."""
    return "://" in location


def is_below(location: str, prefix: str) -> bool:
    """Whether a location is another one, or is below it by whole segments of its path.

    Both are absolute paths, or URLs as `canonical` or `named` writes them. A URL that a server could take
    for another one, because it hides a dot segment (also as ``..;``) or a slash, is below nothing.
    """
    if is_url(location) != is_url(prefix):
        return False
    if not is_url(location):
        return PurePosixPath(location).is_relative_to(prefix)
    at, above = urlsplit(location), urlsplit(prefix)
    if at[:2] != above[:2] or any(_hides(segment) for segment in at.path.split("/")):
        return False
    return named(location) == named(prefix) or (
        not above.query and f"{at.path}/".startswith(f"{above.path.rstrip('/')}/")
    )


def _hides(segment: str) -> bool:
    plain = unquote(segment)
    return plain.partition(";")[0] in (".", "..") or "/" in plain or "\\" in plain


def _without_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
