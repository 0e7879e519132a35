"""What is asked for over a network, each server with the token that is configured for it."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from pai_runtime.host.locations import is_below

MOST_BYTES: Final = 4 << 20
"""Of a definition file, or of another answer of a server."""


class Fetches(Protocol):
    """Gets the bytes of a URL; raises `NoDefinition`."""

    def get(self, url: str, *, token: str | None = None) -> bytes:
        """What is there. `token` is shown to that server and no other."""


class Web:
    """Gets URLs; `tokens` are those for what is below a URL, each read when it is needed.

    `kept` gives what came from a URL earlier and has a digest, if it is known.
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
        """What is at a URL, written as `canonical` does; raises `NoDefinition` or `InvalidInput`.

        Nobody is asked for what is known to have the digest that it must have.
        """
        if digest and (content := self._kept(url, digest)) is not None:
            return content
        token = next((token for below, token in self._tokens if is_below(url, below)), None)
        return self._fetcher.get(url, token=token() if token else None)
