"""URLs of servers: their parts, and what of them may be shown."""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit

PORTS: Final = {"http": 80, "https": 443}
"""The default ports by scheme."""

_URL: Final = re.compile(r"^(https?://)(?:[^/?#]*@)?([^?]*).*", re.IGNORECASE | re.DOTALL)


def split_url(text: str) -> SplitResult | None:
    """Split an http or https URL; None if it is not a valid one."""
    try:
        url = urlsplit(text)
        # Brackets are left in a host only where Python 3.10 takes what is no address for one.
        usable = url.scheme in PORTS and url.hostname and url.port != 0 and not {*"[]"} & {*url.hostname}
    except ValueError:
        return None
    # What is not ASCII, and blanks, would break the first line of a request; a backslash is read in two ways.
    plain = text.isascii() and text.isprintable() and not {" ", "\\"} & set(text)
    return url if usable and plain else None


def joined_url(url: str, location: str) -> str:
    """Return the target of a redirect; empty if it is invalid."""
    try:
        return urldefrag(urljoin(url, location)).url
    except ValueError:
        return ""


def origin(text: str) -> tuple[str, str | None, int | None]:
    """Return the origin of a URL (RFC 6454): scheme, host and port, which may see the same credentials."""
    url = split_url(text)
    return (url.scheme, url.hostname, url.port or PORTS[url.scheme]) if url else ("", None, None)


def shown_url(text: str) -> str:
    """Return a URL without what may be secret: user, password and query."""
    url = split_url(text)
    if url is None:
        return "what is no valid URL"
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()


def shown_text(text: str) -> str:
    """Return a text without user, password and query if it begins as a URL, valid or not."""
    return _URL.sub(r"\1\2", text)


def is_this_machine(host: str) -> bool:
    """Return whether a host is ``localhost`` or a loopback address."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
