"""The web client for definitions, which sends each server the token configured for it."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from pai_runtime.host.locations import is_below

MOST_BYTES: Final = 4 << 20
"""Maximum size of a definition file, or of another answer of a server."""


class Fetches(Protocol):
    """A function object that gets the bytes at a URL; raises `NoDefinition`."""

    def get(self, url: str, *, token: str | None = None) -> bytes:
        """Return the content at a URL; `token` is sent to that server and no other."""


class Web:
    """A client for URLs; `tokens` are those for everything below a URL, each read when it is needed.

    `kept` returns earlier content of a URL with a given digest, if it is known.
    """

    def __init__(
        self,
        fetcher: Fetches,
        tokens: Sequence[tuple[str, Callable[[], str | None]]] = (),
        kept: Callable[[str, str], bytes | None] = lambda *_: None,
    ) -> None:
        self._fetcher = fetcher
        self._tokens = tokens
        self._kept = kept

    def get(self, url: str, digest: str = "") -> bytes:
        """Return the content at a canonical URL. Raises `NoDefinition` or `InvalidInput`.

        With a digest, known content is returned without a request.
        """
        if digest and (content := self._kept(url, digest)) is not None:
            return content
        token = next((token for below, token in self._tokens if is_below(url, below)), None)
        return self._fetcher.get(url, token=token() if token else None)
