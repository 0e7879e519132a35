"""One request to a registry or its token service, through the proxy, with redirects followed.

Plain HTTP is for registries on this machine only. A redirect takes no credentials to another server, and
never leads from HTTPS to HTTP, nor from another machine to this one.
"""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from pai_document.url import is_this_machine, split_url
from pai_network.answer import Answer, NoAnswer
from pai_network.client import Bounds, HttpRequest, ask_once, target_of
from pai_network.proxies import proxy_for
from pai_network.redirects import Received, followed

MOST_BYTES: Final = 4 << 20
"""Maximum size of an answer, which is that of a manifest in the distribution specification."""


def request(method: str, url: str, headers: Mapping[str, str], left: Callable[[], float]) -> Received:
    """Return the final answer to a request within the seconds `left`. Raises `NoAnswer`."""
    return followed(url, headers, lambda url, headers: _answer(method, url, headers, left), may_lead)


def may_lead(source: str, target: str) -> bool:
    """Return whether an answer from the URL `source` may redirect to `target`."""
    url = split_url(target)
    if url is None:
        return False
    if is_this_machine(url.hostname or ""):
        return is_this_machine(urlsplit(source).hostname or "")
    return url.scheme == "https"


def _answer(method: str, text: str, headers: Mapping[str, str], left: Callable[[], float]) -> Answer:
    url = split_url(text)
    if url is None:
        raise NoAnswer("it has no valid address")
    request = HttpRequest(method, target_of(url), headers)
    return ask_once(url, request, Bounds(left(), MOST_BYTES, MOST_BYTES), proxy=proxy_for(url))
