"""What is asked for over a network, each server with the token that is configured for it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from pai_runtime.definitions.locations import is_below


class Fetches(Protocol):
    """Gets the bytes of a URL; raises `NoDefinition`."""

    def get(self, url: str, *, token: str | None = None) -> bytes:
        """What is there. `token` is shown to that server and no other."""


class Web:
    """Gets URLs; `tokens` are those for what is below a URL, each read when it is needed."""

    def __init__(self, fetcher: Fetches, tokens: Sequence[tuple[str, Callable[[], str | None]]] = ()) -> None:
        self._fetcher = fetcher
        self._tokens = tokens

    def get(self, url: str) -> bytes:
        """What is at a URL, written as `canonical` does; raises `NoDefinition` or `InvalidInput`."""
        token = next((token for below, token in self._tokens if is_below(url, below)), None)
        return self._fetcher.get(url, token=token() if token else None)
