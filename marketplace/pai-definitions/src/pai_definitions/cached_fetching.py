"""Fetching through a cache, whose content is used if the server is unreachable."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pai_definitions.cache import Cache
from pai_definitions.model import Unreachable
from pai_definitions.web import MOST_BYTES
from pai_document.url import origin, shown_url

if TYPE_CHECKING:
    from pai_definitions.fetching import Fetcher


class CachedFetcher:
    """A `Fetcher` that caches what it gets, and warns by `say` when it uses the cache instead of a server.

    `fetcher` creates the fetcher when it is first needed: its import takes time. A server that does not
    answer is not asked again: a job may have many definitions from it, and would wait for each of them.
    """

    def __init__(self, fetcher: Callable[[], "Fetcher"], cache: Cache, say: Callable[[str], None]) -> None:
        self._open = fetcher
        self._cache = cache
        self._say = say
        self._silent: set[object] = set()

    def get(self, url: str, *, token: str | None = None, most: int = MOST_BYTES) -> bytes:
        """Return the content at a URL, or the last known one if the server is unreachable.

        Raises `NoDefinition`.
        """
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
