"""Connections to a cluster's API server, by the login that they were made with."""

import threading

from pai_kubernetes.api.access import Access, Login, tls_context
from pai_network.answer import Answer
from pai_network.client import Bounds, Client, HttpRequest, NotConnected, OpenAnswer, Upgraded
from pai_network.proxies import proxy_for
from pai_runtime.engine import ClusterError
from pai_runtime.engine.documents import split_url

_MOST_OF_REFUSAL = 1 << 20


class Connections:
    """The connections to one server, which many threads may use."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._clients: dict[tuple[bytes, bytes], Client] = {}

    def ask(self, request: HttpRequest, login: Login, seconds: float, most: int) -> Answer:
        """Return the whole answer to a request, of at most `most` bytes. Raises `NoAnswer`."""
        return self._client(login).ask(request, Bounds(seconds, most, _MOST_OF_REFUSAL))

    def open(self, request: HttpRequest, login: Login, seconds: float, silence: float) -> Answer | OpenAnswer:
        """Return the answer to a request, whose body is still to be read if its status is 200.

        Raises `NoAnswer`. It has to begin within `seconds`; a read fails when nothing comes for `silence`
        seconds.
        """
        return self._client(login).open(request, Bounds(seconds, 0, _MOST_OF_REFUSAL), silence)

    def upgrade(self, request: HttpRequest, login: Login, seconds: float) -> Answer | Upgraded:
        """Return the answer to a request to switch protocols, within `seconds`. Raises `NoAnswer`."""
        return self._client(login).upgrade(request, Bounds(seconds, 0, _MOST_OF_REFUSAL))

    def _client(self, login: Login) -> Client:
        """Return what has the connections of a client certificate; of a replaced one, nothing is kept."""
        key = (login.certificate, login.key)
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                self._clients.clear()
                client = self._clients[key] = _new_client(self._access, login)
            return client


def _new_client(access: Access, login: Login) -> Client:
    url, proxy = split_url(access.server), split_url(access.proxy)
    if url and not access.proxy:
        proxy = proxy_for(url)
    try:
        return Client(
            access.server,
            proxy=proxy,
            trust=lambda: tls_context(access, login),
            server_name=access.server_name,
        )
    except ClusterError as error:  # the certificates are of no use
        raise NotConnected(str(error), permanent=True) from None
