"""Proxies from the environment: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY."""

from urllib.parse import SplitResult, unquote

from pai_document.url import is_this_machine, split_url
from pai_network.answer import NoAnswer
from pai_network.authorization import basic


def proxy_for(url: SplitResult) -> SplitResult | None:
    """Return the proxy for a URL; None without one, or for this machine.

    Raises `NoAnswer` for an invalid proxy.
    """
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - slow, and few need it

    proxies, host = getproxies(), url.hostname or ""
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or is_this_machine(host) or proxy_bypass(host):
        return None
    proxy = split_url(named if "://" in named else f"http://{named}")
    if proxy is None:
        variable = f"{url.scheme.upper()}_PROXY"
        raise NoAnswer(
            f"{variable}: expected the URL of an HTTP proxy, such as http://proxy:3128", permanent=True
        )
    return proxy


def proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """Return the headers that authenticate at a proxy; empty if its URL names no user."""
    if not proxy.username:
        return {}
    return {"Proxy-Authorization": basic(unquote(proxy.username), unquote(proxy.password or ""))}
