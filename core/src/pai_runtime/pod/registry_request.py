"""One request to a registry or its token service, through the proxy, with redirects followed.

Plain HTTP is for registries on this machine only. A redirect takes no credentials to another server, and
never leads from HTTPS to HTTP, nor from another machine to this one.
"""

from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pai_runtime.network.answer import Answer, NoAnswer
from pai_runtime.network.proxies import proxy_for, proxy_headers
from pai_runtime.network.redirects import Received, followed
from pai_runtime.network.tls import system_trust
from pai_runtime.network.url import is_this_machine, split_url
from pai_runtime.pod.http_get import get

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
    target = url.path + (f"?{url.query}" if url.query else "")
    return get(_connection(url), target or "/", headers, left, MOST_BYTES, method)


def _connection(url: SplitResult) -> HTTPConnection:
    host = url.hostname or ""
    if url.scheme == "http":
        return HTTPConnection(host, url.port)
    proxy = proxy_for(url)
    if proxy is None:
        return HTTPSConnection(host, url.port, context=system_trust())
    if proxy.scheme != "http":
        raise NoAnswer("HTTPS_PROXY: expected the URL of an HTTP proxy, such as http://proxy:3128")
    connection = HTTPSConnection(proxy.hostname or "", proxy.port or 80, context=system_trust())
    connection.set_tunnel(host, url.port or 443, proxy_headers(proxy))
    return connection
