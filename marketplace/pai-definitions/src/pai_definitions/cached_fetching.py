"""Fetching with a cache behind it: what a server has given before is used where it cannot be reached."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pai_definitions.cache import Cache
from pai_definitions.model import Unreachable
from pai_definitions.web import MOST_BYTES
from pai_runtime.network.url import origin, shown_url

if TYPE_CHECKING:
    from pai_definitions.fetching import Fetcher


class CachedFetcher:
    """As a `Fetcher`, and keeps in a cache what comes. `say` is called with a warning if that has to do.

    `fetcher` makes one when something is fetched for the first time: it takes time to import.

    A server that does not answer is not asked again: a job may have many definitions from it, and would wait
    for each of them.
    """

    def __init__(self, fetcher: Callable[[], "Fetcher"], cache: Cache, say: Callable[[str], None]) -> None:
        self._open = fetcher
        self._cache = cache
        self._say = say
        self._silent: set[object] = set()

    def get(self, url: str, *, token: str | None = None, most: int = MOST_BYTES) -> bytes:
        """What is at a URL, or was there when it could last be asked; raises `NoDefinition`."""
        try:
            content = self._fetched(url, token, most)
        except Unreachable as error:
            kept = self._cache.latest(url)
            if kept is None or len(kept) > most:
                raise
            self._say(f"{error}; using what it gave before, from the cache")
            return kept
        self._cache.keep(url, content, is_latest=True)
        return content

    @cached_property
    def _fetcher(self) -> "Fetcher":
        return self._open()

    def _fetched(self, url: str, token: str | None, most: int) -> bytes:
        if origin(url) in self._silent:
            raise Unreachable(f"{shown_url(url)}: its server has not answered")
        try:
            return self._fetcher.get(url, token=token, most=most)
        except Unreachable as error:
            if not error.answered:
                self._silent.add(origin(url))
            raise
