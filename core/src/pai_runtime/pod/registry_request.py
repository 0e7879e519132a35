"""One request to a registry, or to what issues its tokens: by the proxy, and with redirects followed.

Plain HTTP is for registries on this machine only. A redirect takes no credentials to another server, and
never leads from HTTPS to HTTP, nor from another machine to this one.
"""

import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from http.client import HTTPConnection, HTTPSConnection
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, unquote, urldefrag, urljoin, urlsplit

from pai_runtime.pod.http_get import Answer, NoAnswer, get
from pai_runtime.pod.tls import client_context
from pai_runtime.task.record import record

MOST_BYTES: Final = 4 << 20
"""Of an answer: so large can a manifest be by the distribution specification."""
MOST_REDIRECTS: Final = 5

_REDIRECTS = (301, 302, 303, 307, 308)


@record(frozen=True)
class Received:
    """An answer. `redirected`: it is another server's than the one that was asked."""

    answer: Answer
    redirected: bool


def request(method: str, url: str, headers: Mapping[str, str], left: Callable[[], float]) -> Received:
    """What is answered in the end, within the seconds that are left; raises `NoAnswer`."""
    asked = url
    for _ in range(MOST_REDIRECTS + 1):
        answer = _answer(method, url, headers, left)
        location = answer.headers.get("Location")
        if answer.status not in _REDIRECTS or location is None:
            return Received(answer, _server(url) != _server(asked))
        target = _joined(url, location)
        if not may_lead(url, target):
            raise NoAnswer(
                "it redirected to an address that cannot be trusted (expected https, not this machine)"
            )
        if _server(target) != _server(url):
            headers = {name: value for name, value in headers.items() if name != "Authorization"}
        url = target
    raise NoAnswer(f"it redirected more than {MOST_REDIRECTS} times")


def may_lead(source: str, target: str) -> bool:
    """Whether what answers at the URL `source` may send us to `target`."""
    url = _split(target)
    if url is None:
        return False
    if is_this_machine(url.hostname or ""):
        return is_this_machine(urlsplit(source).hostname or "")
    return url.scheme == "https"


def is_this_machine(host: str) -> bool:
    """Whether a host is a name or address of the machine itself: what Docker talks plain HTTP with."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _answer(method: str, text: str, headers: Mapping[str, str], left: Callable[[], float]) -> Answer:
    url = _split(text)
    if url is None:
        raise NoAnswer("it has no valid address")
    target = url.path + (f"?{url.query}" if url.query else "")
    return get(_connection(url), target or "/", headers, left, MOST_BYTES, method)


def _split(text: str) -> SplitResult | None:
    """The parts of an address that can be asked; None if it is none."""
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        return None
    # What is not ASCII, and blanks, would break the first line of a request.
    return url if usable and text.isascii() and text.isprintable() and " " not in text else None


def _joined(url: str, location: str) -> str:
    try:
        return urldefrag(urljoin(url, location)).url
    except ValueError:
        return ""


def _server(text: str) -> tuple[str, str | None, int | None]:
    url = urlsplit(text)
    return url.scheme, url.hostname, url.port


def _connection(url: SplitResult) -> HTTPConnection:
    host = url.hostname or ""
    if url.scheme == "http":
        return HTTPConnection(host, url.port)
    proxy = proxy_for(host)
    if proxy is None:
        return HTTPSConnection(host, url.port, context=trust())
    connection = HTTPSConnection(proxy.hostname or "", proxy.port or 80, context=trust())
    connection.set_tunnel(host, url.port or 443, _proxy_headers(proxy))
    return connection


def proxy_for(host: str) -> SplitResult | None:
    """The proxy that the environment names for HTTPS to a host, unless it excludes it; raises `NoAnswer`."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - slow, and few need it

    proxies = getproxies()
    named = proxies.get("https") or proxies.get("all")
    if not named or is_this_machine(host) or proxy_bypass(host):
        return None
    proxy = _split(named if "://" in named else f"http://{named}")
    if proxy is None or proxy.scheme != "http":
        raise NoAnswer("HTTPS_PROXY: expected the URL of an HTTP proxy, such as http://proxy:3128")
    return proxy


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    return {"Proxy-Authorization": basic(unquote(proxy.username), unquote(proxy.password or ""))}


def basic(username: str, password: str) -> str:
    """The value of a header that says who asks (RFC 7617)."""
    return f"Basic {b64encode(f'{username}:{password}'.encode(errors='surrogatepass')).decode()}"


@cache
def trust() -> ssl.SSLContext:
    """What this system trusts. Once for all requests: reading the certificates takes some 50 ms."""
    return client_context()
