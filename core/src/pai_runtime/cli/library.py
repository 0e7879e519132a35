"""The library of shared definitions for a command, as configured and under the policies in force."""

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
    """The library of a job, opened when it is first needed, with a record of what was found in it.

    `job` is its file; the lock file beside it applies, or `lock` in its place. What is not locked is refused
    if the lock is `complete`.
    """

    def __init__(self, job: Path, host: Host, lock: "Lock | None" = None, *, complete: bool = True) -> None:
        self._job = job
        self._host = host
        self._lock = lock
        self._complete = complete
        self._found: RecordingLibrary | None = None

    def __call__(self, secrets: Mapping[str, "Value"]) -> "Library":
        """Open the library; see `OpenLibrary`."""
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
        """The content of the lock file of the job, by what was found."""
        return self._found.shared if self._found else {}

    def resolved(self) -> str:
        """Return a lock file that contains everything that was found; empty if nothing was."""
        return self._found.resolved() if self._found else ""


def opened_sources(
    settings: "Sequence[SourceSettings]", secrets: Mapping[str, "Value"], host: Host | None = None
) -> "tuple[Sequence[DefinitionSource], Web]":
    """Return these sources with the embedded one, and the web client; `secrets` may be tokens of servers.

    No server is allowed to redirect to what policies of `host` refuse.
    """
    from pai_runtime.definitions.cache import Cache
    from pai_runtime.definitions.cached_fetching import CachedFetcher
    from pai_runtime.definitions.sources import open_sources

    def open_fetcher() -> "Fetcher":
        from pai_runtime.definitions.fetching import Fetcher

        return Fetcher(refusal=host.location_refusal) if host else Fetcher()

    cache = Cache()
    return open_sources(settings, secrets, CachedFetcher(open_fetcher, cache, say), cache.pinned)
