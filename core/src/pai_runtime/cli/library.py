"""The library of shared definitions for a command: what is configured, under the policies in force."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pai_runtime.host.host import Host
from pai_runtime.task.record import replace
from pai_runtime.terminal.output import say

# A job that names no definition must not wait for any of it.
# ruff: noqa: PLC0415

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_runtime.definitions.configuration import SourceSettings
    from pai_runtime.definitions.fetching import Fetcher
    from pai_runtime.definitions.lock import Key, Lock, Pin
    from pai_runtime.definitions.locked import RecordingLibrary
    from pai_runtime.definitions.model import DefinitionSource, Library
    from pai_runtime.definitions.web import Web
    from pai_runtime.document.value import Value


class JobLibrary:
    """Opens the library of a job, when that is needed for the first time, and knows what was found in it.

    `job` is its file; what its lock file says holds, or `lock` in the place of it. What is not in that is
    refused if it is `complete`.
    """

    def __init__(self, job: Path, host: Host, lock: "Lock | None" = None, *, complete: bool = True) -> None:
        self._job = job
        self._host = host
        self._lock = lock
        self._complete = complete
        self._found: RecordingLibrary | None = None

    def __call__(self, secrets: Mapping[str, "Value"]) -> "Library":
        """See `OpenLibrary`."""
        from pai_runtime.definitions.cache import Cache
        from pai_runtime.definitions.configuration import configurations, read_sources
        from pai_runtime.definitions.library import SourceLibrary
        from pai_runtime.definitions.lock import existing_lock, lock_path
        from pai_runtime.definitions.locked import LockedLibrary, RecordingLibrary

        sources, web = opened_sources(read_sources(configurations()), secrets, self._host)
        found = SourceLibrary(sources, web, self._host.location_refusal, self._job)
        library: Library = found
        lock = self._lock or existing_lock(lock_path(self._job))
        if lock:
            # Whoever wrote the file says where what it carries came from, and a policy goes by that.
            lock = replace(lock, contents={})
            command = f"pai-runtime lock {shlex.quote(str(self._job))}"
            library = LockedLibrary(found, lock, Cache(), command, complete=self._complete)
        self._found = RecordingLibrary(library)
        return self._found

    @property
    def pins(self) -> "Mapping[Key, Pin]":
        """What the lock file of the job has to say."""
        return self._found.shared if self._found else {}

    def resolved(self) -> str:
        """A lock file that carries everything that was found; empty if that is nothing."""
        return self._found.resolved() if self._found else ""


def opened_sources(
    settings: "Sequence[SourceSettings]", secrets: Mapping[str, "Value"], host: Host | None = None
) -> "tuple[Sequence[DefinitionSource], Web]":
    """These sources and the embedded one, with what asks servers; `secrets` may be tokens of theirs.

    No server leads to what policies of `host` refuse.
    """
    from pai_runtime.definitions.cache import Cache
    from pai_runtime.definitions.cached_fetching import CachedFetcher
    from pai_runtime.definitions.sources import open_sources

    def open_fetcher() -> "Fetcher":
        from pai_runtime.definitions.fetching import Fetcher

        return Fetcher(refusal=host.location_refusal) if host else Fetcher()

    cache = Cache()
    return open_sources(settings, secrets, CachedFetcher(open_fetcher, cache, say), cache.pinned)
