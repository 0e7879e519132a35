"""Fetching with a cache behind it: what a server has given before is used where it cannot be reached."""

from collections.abc import Callable

from pai_runtime.definitions.cache import Cache
from pai_runtime.definitions.fetching import MOST_BYTES, Fetcher, Unreachable


class CachedFetcher:
    """As a `Fetcher`, and keeps in a cache what comes. `say` is called with a warning if that has to do."""

    def __init__(self, fetcher: Fetcher, cache: Cache, say: Callable[[str], None]) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._say = say

    def get(self, url: str, *, token: str | None = None, most: int = MOST_BYTES) -> bytes:
        """What is at a URL, or was there when it could last be asked; raises `NoDefinition`."""
        try:
            content = self._fetcher.get(url, token=token, most=most)
        except Unreachable as error:
            kept = self._cache.by_origin(url)
            if kept is None or len(kept) > most:
                raise
            self._say(f"{error}; using what it gave before, from the cache")
            return kept
        self._cache.keep(url, content)
        return content
